// Command website is a complete operator: each ConfigMap with the label "website" becomes a Deployment of web servers
// that serve its files. New content is rolled out, manual changes are reverted, and when the ConfigMap is deleted, the
// garbage collector deletes the Deployment.
package main

import (
	"context"
	"flag"
	"log"
	"log/slog"
	"net"
	"os"
	"os/signal"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/millrace/millrace/loop"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "listen address of /healthz, /readyz and /metrics")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *listen); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, listen string) error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	clients, err := loop.NewClients(config, slog.Default())
	if err != nil {
		return err
	}
	clients = clients.Named("website")
	operator, err := websites(clients)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	election := loop.Election{Lease: loop.Key{Namespace: "default", Name: "website"}}
	return loop.Run(ctx, clients, loop.Elected(clients, election, operator),
		loop.Serve(listener, loop.Endpoints(clients, prometheus.DefaultGatherer)))
}
