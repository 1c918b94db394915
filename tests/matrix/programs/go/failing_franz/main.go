// A producer with franz-go that fails: BOOTSTRAP TOPIC PROTOCOL MECHANISM USER PASSWORD CA. Everything goes to stderr.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

func main() {
	bootstrap, topic, protocol, mechanism, user, password, ca := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5], os.Args[6], os.Args[7]
	options := []kgo.Opt{
		kgo.SeedBrokers(bootstrap),
		kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelInfo, nil)),
		kgo.DialTimeout(2 * time.Second),
		kgo.RequestTimeoutOverhead(2 * time.Second),
	}
	if strings.HasSuffix(protocol, "SSL") {
		roots := x509.NewCertPool()
		pem, _ := os.ReadFile(ca)
		roots.AppendCertsFromPEM(pem)
		options = append(options, kgo.DialTLSConfig(&tls.Config{RootCAs: roots}))
	}
	if mechanism == "PLAIN" {
		options = append(options, kgo.SASL(plain.Auth{User: user, Pass: password}.AsMechanism()))
	} else if mechanism != "" {
		options = append(options, kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha256Mechanism()))
	}
	client, err := kgo.NewClient(options...)
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), 6*time.Second)
		defer cancel()
		err = client.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("record")}).FirstErr()
	}
	fmt.Fprintln(os.Stderr, "Error:", err)
}
