package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// options are the command line's options.
type options struct {
	kubeconfig, server, millrace, kubeScheduler string
	nodes                                       []int
	kinds                                       []string
	pods, runs, binder                          int
	timeout                                     time.Duration
	withoutClaims                               bool // the server does not have the kinds of resource.k8s.io
}

func parse() (o options, err error) {
	var nodes, kinds string
	flag.StringVar(&o.kubeconfig, "kubeconfig", "", "how to reach an API server that is there already")
	flag.StringVar(&o.server, "server", "", "start an API server of this project that keeps things in memory or on the disk")
	flag.StringVar(&o.millrace, "millrace", "millrace", "the command of this project")
	flag.StringVar(&o.kubeScheduler, "kube-scheduler", assets("kube-scheduler"), "the other scheduler; none: it does not take part")
	flag.StringVar(&nodes, "nodes", "1000,5000", "numbers of nodes")
	flag.StringVar(&kinds, "kinds", "plain,spread,service", "kinds of pods")
	flag.IntVar(&o.pods, "pods", 5000, "how many pods are placed at a time")
	flag.IntVar(&o.runs, "runs", 1, "how often each has its turn")
	flag.IntVar(&o.binder, "binder", 128, "how many bindings the bare binder posts at a time; 0: it does not take part")
	flag.DurationVar(&o.timeout, "timeout", 5*time.Minute, "how long one scheduler may take")
	flag.Parse()
	if (o.kubeconfig == "") == (o.server == "") {
		return o, errors.New("either --kubeconfig or --server must say which API server")
	}
	if o.server != "" && o.server != "memory" && o.server != "disk" {
		return o, fmt.Errorf("--server %s is neither memory nor disk", o.server)
	}
	for text := range strings.SplitSeq(nodes, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return o, fmt.Errorf("--nodes %s is no list of numbers", nodes)
		}
		o.nodes = append(o.nodes, n)
	}
	o.kinds = strings.Split(kinds, ",")
	for _, kind := range o.kinds {
		if kindsOfPods[kind].pod == nil {
			return o, fmt.Errorf("--kinds: there is no kind %s", kind)
		}
	}
	return o, nil
}

// assets returns the path of a Kubernetes binary in the directory that envtest uses.
func assets(name string) string {
	if directory := os.Getenv("KUBEBUILDER_ASSETS"); directory != "" {
		return filepath.Join(directory, name)
	}
	return ""
}

// contender is a process that binds pods.
type contender struct {
	name string
	args []string
}

const (
	ours       = "millrace"
	theirs     = "kube-scheduler"
	bareBinder = "bare-binder"
)

func (o *options) contenders(namespace string) []contender {
	all := []contender{{ours, []string{o.millrace, "scheduler", "--kubeconfig", o.kubeconfig, "--leader-elect=false", "--secure-port=0"}}}
	if o.binder > 0 {
		all = append(all, contender{bareBinder, []string{os.Args[0], bareBinder, o.kubeconfig, namespace, strconv.Itoa(o.binder)}})
	}
	if o.kubeScheduler != "" {
		args := []string{
			o.kubeScheduler, "--kubeconfig", o.kubeconfig, "--leader-elect=false", "--secure-port=0",
			"--kube-api-qps=100000", "--kube-api-burst=100000",
		}
		if o.withoutClaims {
			args = append(args, "--emulated-version=1.34",
				"--feature-gates=DynamicResourceAllocation=false,DRASchedulerFilterTimeout=false,DRAAdminAccess=false,DRAPrioritizedList=false")
		}
		all = append(all, contender{theirs, args})
	}
	return all
}
