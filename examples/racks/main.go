// Command racks is a scheduler with an additional rule: a pod with the annotation "rack" is placed on a node with that label.
// Pods select it with the schedulerName "rack-scheduler". Pods of the default scheduler are ignored.
package main

import (
	"context"
	"log"
	"log/slog"
	"os"
	"os/signal"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/millrace/millrace/internal/scheduler"
	"github.com/millrace/millrace/internal/scheduler/plugin"
	"github.com/millrace/millrace/internal/scheduler/rules"
	"github.com/millrace/millrace/loop"
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
	set := rules.Defaults()
	set.Filters = append(set.Filters, racks{})
	o := scheduler.For(c)
	o.Profiles = []scheduler.Profile{{SchedulerName: name, Rules: set}}
	o.Recorder = c.Named(name).Recorder
	return scheduler.New(o)
}

// racks is the rule. The scheduler may share results among pods for which it reads the same values.
type racks struct{}

func (racks) Name() string                   { return "Racks" }
func (racks) ReadPod(pod *corev1.Pod) string { return pod.Annotations["rack"] }

// Skip skips pods without the annotation.
func (r racks) Skip(demand *plugin.Demand) bool { return demand.Read(r.Name()) == "" }

// Lasting means that preempting other pods on the node would not help.
var elsewhere = plugin.Verdict{Plugin: "Racks", Reasons: []string{"node(s) were in another rack"}, Lasting: true}

func (r racks) Filter(demand *plugin.Demand, node *plugin.Node) *plugin.Verdict {
	if node.Labels["rack"] != demand.Read(r.Name()) {
		return &elsewhere
	}
	return nil
}
