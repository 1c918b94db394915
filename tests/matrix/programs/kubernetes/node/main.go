// A node and the API server before it, as far as forwarding ports needs them, of Kubernetes' own parts: the kubelet's
// (k8s.io/cri-streaming, with moby/spdystream) and the API server's (k8s.io/apiserver). A port of any pod leads to the
// same port of this machine. Other than kwok and containerd, this node passes on the end of each direction.
//
// It prints the ports of three API servers: one that carries SPDY in WebSockets (since 1.31), one that does not, and one
// behind a proxy without WebSockets.
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/util/proxy"
	translator "k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/streaming/pkg/httpstream/wsstream"
)

type node struct{}

func (node) PortForward(_ context.Context, _ string, _ string, port int32, stream io.ReadWriteCloser) error {
	pod, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return err
	}
	defer pod.Close()
	done := make(chan error, 2)
	go func() {
		_, err := io.Copy(stream, pod)
		stream.Close()
		done <- err
	}()
	go func() {
		_, err := io.Copy(pod, stream)
		pod.(*net.TCPConn).CloseWrite()
		done <- err
	}()
	first := <-done
	if second := <-done; first == nil {
		first = second
	}
	return first
}

type responder struct{}

func (responder) Error(w http.ResponseWriter, _ *http.Request, err error) {
	http.Error(w, err.Error(), http.StatusInternalServerError)
}

func listen(handler http.HandlerFunc) int {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go http.Serve(listener, handler)
	return listener.Addr().(*net.TCPAddr).Port
}

func main() {
	kubelet := listen(func(w http.ResponseWriter, req *http.Request) {
		options, err := portforward.NewV4Options(req)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		portforward.ServePortForward(w, req, node{}, "pod", "", options, 4*time.Hour, 30*time.Second, portforward.SupportedProtocols)
	})
	forwarded := func(req *http.Request) http.Handler {
		location := &url.URL{Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", kubelet), RawQuery: req.URL.RawQuery}
		return proxy.NewUpgradeAwareHandler(location, nil, false, true, responder{})
	}
	tunnel := listen(func(w http.ResponseWriter, req *http.Request) {
		handler := forwarded(req)
		tunneling := translator.NewTunnelingHandler(handler)
		translator.NewTranslatingHandler(handler, tunneling, wsstream.IsWebSocketRequestWithTunnelingProtocol).ServeHTTP(w, req)
	})
	channel := listen(func(w http.ResponseWriter, req *http.Request) { forwarded(req).ServeHTTP(w, req) })
	upgrade := listen(func(w http.ResponseWriter, req *http.Request) {
		if wsstream.IsWebSocketRequest(req) {
			http.Error(w, "no WebSockets here", http.StatusBadRequest)
			return
		}
		forwarded(req).ServeHTTP(w, req)
	})
	fmt.Println(tunnel, channel, upgrade)
	io.Copy(io.Discard, os.Stdin) // until whoever began it ends
}
