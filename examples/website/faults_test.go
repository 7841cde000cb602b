package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/faults"
	"github.com/millrace/millrace/loop"
	"github.com/millrace/millrace/millracetest"
)

// published runs the operator with five sites while its requests fail, and returns what is wrong with the deployments
// after it had time to repair everything.
func published(t *testing.T, transport *faults.Transport) (wrong error) {
	synctest.Test(t, func(t *testing.T) {
		config := millracetest.API(t)
		users, err := loop.NewClients(config, nil)
		if err != nil {
			t.Fatal(err)
		}
		misbehaving := rest.CopyConfig(config)
		misbehaving.Wrap(transport.Wrap)
		clients, err := loop.NewClients(misbehaving, nil)
		if err != nil {
			t.Fatal(err)
		}
		operator, err := websites(clients)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- loop.Run(ctx, clients, operator) }()
		for i := range 5 {
			s := site(fmt.Sprint("site-", i), isSite, map[string]string{"index.html": fmt.Sprint(i)})
			s.Namespace = "default"
			create(t, users.Kube, s)
			time.Sleep(10 * time.Second)
		}
		transport.Heal()
		time.Sleep(10 * time.Minute)
		all, err := users.Kube.AppsV1().Deployments("default").List(t.Context(), metav1.ListOptions{})
		if err != nil || len(all.Items) != 5 {
			wrong = fmt.Errorf("%d deployments (%v), want 5", len(all.Items), err)
		}
		cancel()
		<-ended
	})
	return wrong
}

func TestTheOperatorRepairsEverythingWhateverHappensToItsRequests(t *testing.T) {
	for range 3 {
		plan := faults.Plan{Seed: rand.Uint64(), Rules: []faults.Rule{
			{Verb: "create", Chance: 0.3, Fault: faults.LostAnswer},
			{Verb: "create", Chance: 0.2, Fault: faults.Conflict},
			{Verb: "watch", Chance: 0.3, Fault: faults.Cut},
			{Verb: "watch", Chance: 0.2, Fault: faults.Expire},
			{Verb: "patch", Chance: 0.3, Fault: faults.Error},
			{Chance: 0.1, Fault: faults.LostRequest},
		}}
		transport := faults.New(plan)
		if err := published(t, transport); err != nil {
			t.Errorf("%v; what happened: %s", err, transport.Happened())
		}
	}
}
