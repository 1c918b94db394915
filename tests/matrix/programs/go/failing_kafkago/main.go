// A producer with kafka-go that fails: BOOTSTRAP TOPIC PROTOCOL MECHANISM USER PASSWORD CA. Everything goes to stderr.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"
)

func main() {
	bootstrap, topic, protocol, mechanism, user, password, ca := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5], os.Args[6], os.Args[7]
	dialer := &kafka.Dialer{Timeout: 3 * time.Second, DualStack: true}
	if strings.HasSuffix(protocol, "SSL") {
		roots := x509.NewCertPool()
		pem, _ := os.ReadFile(ca)
		roots.AppendCertsFromPEM(pem)
		dialer.TLS = &tls.Config{RootCAs: roots}
	}
	if mechanism == "PLAIN" {
		dialer.SASLMechanism = plain.Mechanism{Username: user, Password: password}
	} else if mechanism != "" {
		dialer.SASLMechanism, _ = scram.Mechanism(scram.SHA256, user, password)
	}
	context, cancel := context.WithTimeout(context.Background(), 12*time.Second)
	defer cancel()
	logger := log.New(os.Stderr, "kafka-go ", log.LstdFlags)
	connection, err := dialer.DialLeader(context, "tcp", bootstrap, topic, 0)
	if err == nil {
		_ = connection.SetDeadline(time.Now().Add(5 * time.Second))
		_, err = connection.WriteMessages(kafka.Message{Value: []byte("record")})
	}
	logger.Println("failed to dial leader:", err)
	fmt.Fprintln(os.Stderr, "Error:", err)
}
