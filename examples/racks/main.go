// Command racks is a scheduler with an additional rule: a pod with the annotation "rack" is placed on a node with that
// label. Pods select it with the schedulerName "rack-scheduler". Pods of the default scheduler are ignored.
package main

import (
	"context"
	"log"
	"log/slog"
	"os"
	"os/signal"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/millrace/millrace/loop"
	"github.com/millrace/millrace/scheduler"
)

const name = "rack-scheduler"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		log.Fatal(err)
	}
	clients, err := loop.NewClients(config, slog.Default())
	if err != nil {
		log.Fatal(err)
	}
	election := loop.Election{Lease: loop.Key{Namespace: "kube-system", Name: name}}
	if err := loop.Run(ctx, clients, loop.Elected(clients, election, rackScheduler(clients))); err != nil {
		log.Fatal(err)
	}
}

func rackScheduler(c *loop.Clients) loop.Runner {
	return scheduler.New(c, scheduler.Options{Name: name, Rules: []scheduler.Rule{{
		Name:   "Racks",
		Read:   func(pod *corev1.Pod) string { return pod.Annotations["rack"] },
		Filter: inRack,
	}}})
}

func inRack(rack string, node scheduler.Node) *scheduler.Refusal {
	if node.Labels()["rack"] != rack {
		return &scheduler.Refusal{Reason: "node(s) were in another rack", Final: true} // preempting pods of the node would not help
	}
	return nil
}
