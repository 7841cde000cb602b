// Command compare lets kube-scheduler and this project's scheduler place the same pods on the same nodes of one API
// server, one after the other. It prints the rate, the CPU time and how evenly the pods are distributed.
//
//	compare --millrace PATH [--kube-scheduler PATH] [--server memory|disk | --kubeconfig FILE]
//	        [--nodes 1000,5000] [--pods 5000] [--kinds plain,spread,service,apart,volume,preempt] [--runs 1] [--binder 128] [--timeout 5m]
//
// The server is one of this project, in memory or with its log on the disk, unless a kubeconfig names another.
// kube-scheduler waits for all kinds that it watches. If the server has no resource.k8s.io, kube-scheduler is started
// with that disabled, which not every version supports.
//
// A third contender shows the limit of the server and the machine: the bare binder makes no decisions. It lists the
// pods and posts a binding for each, many at a time. No scheduler can be faster, except by chance. If the bare binder
// is less than ten times as fast as kube-scheduler, so is every scheduler on that server and machine.
//
// All contenders are separate processes, as in clusters. kube-scheduler gets a limit of requests that it never reaches
// (--kube-api-qps), because otherwise its default limit would be measured. The nodes are only objects: nothing runs on
// them. The program uses its own namespace and its own nodes, and deletes them at the end.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	if len(os.Args) > 1 && os.Args[1] == bareBinder {
		err = bindAll(ctx, os.Args[2:])
	} else {
		err = compare(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

func compare(ctx context.Context) (err error) {
	o, err := parse()
	if err != nil {
		return err
	}
	if o.server != "" {
		s, err := startServer(ctx, o.millrace, o.server)
		if err != nil {
			return err
		}
		defer s.stop()
		o.kubeconfig = s.kubeconfig()
	}
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.ContentType = -1, "application/vnd.kubernetes.protobuf"
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	if _, err := kube.Discovery().ServerResourcesForGroupVersion("resource.k8s.io/v1"); err != nil {
		o.withoutClaims = true
	}
	w := &world{kube: kube}
	defer func() { err = errors.Join(err, w.clear(context.WithoutCancel(ctx))) }()
	if err := w.open(ctx); err != nil {
		return err
	}
	fmt.Println(head)
	for _, n := range o.nodes {
		if err := w.grow(ctx, n); err != nil {
			return err
		}
		for _, kind := range o.kinds {
			if err := w.match(ctx, o, kind); err != nil {
				return fmt.Errorf("%d nodes, %s pods: %w", n, kind, err)
			}
		}
	}
	return nil
}

// match lets all contenders place pods of one kind, one after the other, and prints a comparison.
func (w *world) match(ctx context.Context, o options, kind string) error {
	s := score{}
	for range o.runs {
		for _, c := range o.contenders(w.namespace) {
			r, err := w.round(ctx, o, c, kind)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			fmt.Printf("%d\t%s\t%s\t%s\n", w.nodes, kind, c.name, r)
			s[c.name] = append(s[c.name], r)
		}
	}
	fmt.Print(s)
	return nil
}
