// A producer with Sarama that fails: BOOTSTRAP TOPIC PROTOCOL MECHANISM USER PASSWORD CA. Everything goes to stderr.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

func main() {
	bootstrap, topic, protocol, mechanism, user, password, ca := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5], os.Args[6], os.Args[7]
	sarama.Logger = log.New(os.Stderr, "[sarama] ", log.LstdFlags)
	config := sarama.NewConfig()
	config.Producer.Return.Successes = true
	config.Net.DialTimeout, config.Net.ReadTimeout = 2*time.Second, 2*time.Second
	config.Metadata.Retry.Max, config.Producer.Retry.Max = 1, 1
	if strings.HasSuffix(protocol, "SSL") {
		roots := x509.NewCertPool()
		pem, _ := os.ReadFile(ca)
		roots.AppendCertsFromPEM(pem)
		config.Net.TLS.Enable, config.Net.TLS.Config = true, &tls.Config{RootCAs: roots}
	}
	if mechanism != "" {
		config.Net.SASL.Enable = true
		config.Net.SASL.Mechanism = sarama.SASLMechanism(mechanism)
		config.Net.SASL.User, config.Net.SASL.Password = user, password
		config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &never{} }
	}
	producer, err := sarama.NewSyncProducer([]string{bootstrap}, config)
	if err == nil {
		_, _, err = producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder("record")})
	}
	fmt.Fprintln(os.Stderr, "Error:", err)
}

// The broker refuses the mechanism before it is used.
type never struct{}

func (*never) Begin(_, _, _ string) error    { return nil }
func (*never) Step(_ string) (string, error) { return "", nil }
func (*never) Done() bool                    { return true }
