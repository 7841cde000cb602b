// Command compare lets kube-scheduler and this project's scheduler place the same pods on the same nodes of one API server,
// one after the other, and says how fast each was, what CPU time it took, and how even the result is.
//
//	compare --kubeconfig FILE --millrace PATH [--kube-scheduler PATH] [--nodes 1000,5000] [--pods 2000] [--kinds plain,spread,service]
//
// Both run as processes of their own, as they are started in clusters. kube-scheduler gets a rate of requests that it
// never reaches (--kube-api-qps), since its default would be what is measured. It needs an API server that has all kinds
// which it watches, those of resource.k8s.io among them. The nodes are objects only: nothing runs
// on them. What the program makes is in a namespace of its own and on nodes of its own, and is deleted in the end.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// options are what the command line says.
type options struct {
	kubeconfig, millrace, kubeScheduler string
	nodes                               []int
	kinds                               []string
	pods                                int
}

func main() {
	o, err := parse()
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		err = run(ctx, o)
		stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

func parse() (o options, err error) {
	var nodes, kinds string
	flag.StringVar(&o.kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "how to reach the API server")
	flag.StringVar(&o.millrace, "millrace", "millrace", "the command of this project")
	flag.StringVar(&o.kubeScheduler, "kube-scheduler", assets("kube-scheduler"), "the other scheduler; none: only this project's")
	flag.StringVar(&nodes, "nodes", "1000,5000", "numbers of nodes")
	flag.StringVar(&kinds, "kinds", "plain,spread,service", "kinds of pods")
	flag.IntVar(&o.pods, "pods", 2000, "how many pods are placed at a time")
	flag.Parse()
	for text := range strings.SplitSeq(nodes, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return o, fmt.Errorf("--nodes %s is no list of numbers", nodes)
		}
		o.nodes = append(o.nodes, n)
	}
	o.kinds = strings.Split(kinds, ",")
	for _, kind := range o.kinds {
		if kindsOfPods[kind] == nil {
			return o, fmt.Errorf("--kinds: there is no kind %s", kind)
		}
	}
	return o, nil
}

// assets is where tests of controllers have Kubernetes' binaries.
func assets(name string) string {
	if folder := os.Getenv("KUBEBUILDER_ASSETS"); folder != "" {
		return filepath.Join(folder, name)
	}
	return ""
}

func run(ctx context.Context, o options) (err error) {
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.ContentType = -1, "application/vnd.kubernetes.protobuf"
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	w := &world{kube: kube}
	defer func() { err = errors.Join(err, w.clear(context.WithoutCancel(ctx))) }()
	if err := w.open(ctx); err != nil {
		return err
	}
	fmt.Println("nodes\tkind\tscheduler\tpods/s\tCPU µs/pod\tpeak MiB\tpods a node\tpods a zone")
	for _, n := range o.nodes {
		if err := w.grow(ctx, n); err != nil {
			return err
		}
		for _, kind := range o.kinds {
			for _, s := range o.schedulers() {
				r, err := w.round(ctx, s, kind, o.pods)
				if err != nil {
					return fmt.Errorf("%s with %d nodes and %s pods: %w", s.name, n, kind, err)
				}
				fmt.Printf("%d\t%s\t%s\t%s\n", n, kind, s.name, r)
			}
		}
	}
	return nil
}

// contender is one scheduler.
type contender struct {
	name string
	args []string
}

func (o *options) schedulers() []contender {
	all := []contender{{"millrace", []string{o.millrace, "scheduler", "--kubeconfig", o.kubeconfig, "--leader-elect=false"}}}
	if o.kubeScheduler != "" {
		all = append(all, contender{"kube-scheduler", []string{
			o.kubeScheduler, "--kubeconfig", o.kubeconfig, "--leader-elect=false", "--secure-port=0",
			"--kube-api-qps=100000", "--kube-api-burst=100000",
		}})
	}
	return all
}
