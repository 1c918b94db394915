// Each line of the file is a login: write a record with franz-go, and read it.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const patience = 60 * time.Second

func main() {
	file, err := os.Open(os.Args[1])
	if err != nil {
		panic(err)
	}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		cell := strings.Split(lines.Text(), "\t")
		if err := run(cell[0], cell[2], cell[1], cell[3:]); err != nil {
			fmt.Println(cell[0], err)
		} else {
			fmt.Println(cell[0], "ok")
		}
	}
}

func settings(bootstrap string, login []string) ([]kgo.Opt, error) {
	mechanism, user, password, token, ca, pem := login[0], login[1], login[2], login[3], login[4], login[5]
	roots, trusted := x509.NewCertPool(), false
	if authority, err := os.ReadFile(ca); err == nil {
		trusted = roots.AppendCertsFromPEM(authority)
	}
	if !trusted {
		return nil, errors.New("the CA cannot be read")
	}
	config := &tls.Config{RootCAs: roots}
	made := []kgo.Opt{kgo.SeedBrokers(bootstrap), kgo.DialTLSConfig(config)}
	switch mechanism {
	case "certificate":
		pair, err := tls.LoadX509KeyPair(pem, pem)
		config.Certificates = []tls.Certificate{pair}
		return made, err
	case "PLAIN":
		return append(made, kgo.SASL(plain.Auth{User: user, Pass: password}.AsMechanism())), nil
	case "SCRAM-SHA-256":
		return append(made, kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha256Mechanism())), nil
	case "SCRAM-SHA-512":
		return append(made, kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha512Mechanism())), nil
	}
	bytes, err := os.ReadFile(token)
	return append(made, kgo.SASL(oauth.Auth{Token: string(bytes)}.AsMechanism())), err
}

func run(name, topic, bootstrap string, login []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	options, err := settings(bootstrap, login)
	if err != nil {
		return err
	}
	options = append(options, kgo.ConsumerGroup(topic+"-"+name), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte(name)}).FirstErr(); err != nil {
		return err
	}
	for {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			return err
		}
		for _, record := range fetches.Records() {
			if string(record.Value) == name {
				return nil
			}
		}
	}
}
