package main

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/millracetest"
)

// TestEachKindOfPodsIsPlacedAndLeavesNothing places a few pods of each kind, as the program does with many.
func TestEachKindOfPodsIsPlacedAndLeavesNothing(t *testing.T) {
	cluster := millracetest.Start(t, millrace.Options{Listen: "none", Controllers: []string{}})
	w := &world{kube: millracetest.Clientset(t, cluster)}
	ctx := t.Context()
	if err := w.open(ctx); err != nil {
		t.Fatal(err)
	}
	const nodes, pods = 6, 6
	if err := w.grow(ctx, nodes); err != nil {
		t.Fatal(err)
	}
	for name := range kindsOfPods {
		t.Run(name, func(t *testing.T) {
			seen := newSightings(nodes, pods)
			watching, stop := context.WithTimeout(t.Context(), time.Minute)
			observed := w.observe(watching, seen)
			defer func() {
				stop()
				<-observed
			}()
			if name == "spread" || name == "apart" {
				w.crowdAllButOne(t)
			}
			if err := w.fill(ctx, name, pods); err != nil {
				t.Fatal(err)
			}
			select {
			case <-seen.all:
			case <-observed:
				t.Fatalf("%d of %d pods got nodes", seen.count.Load(), pods)
			}
			switch { // the others may be anywhere
			case name == "spread" && slices.Max(seen.result.byZone) != pods/zones:
				t.Errorf("they are distributed %v over zones", seen.result.byZone)
			case name == "apart" && slices.Max(seen.result.byNode) != 1:
				t.Errorf("they are distributed %v over nodes", seen.result.byNode)
			}
			if err := w.empty(ctx); err != nil {
				t.Fatal(err)
			}
		})
	}
	if err := w.clear(ctx); err != nil {
		t.Fatal(err)
	}
	core := w.kube.CoreV1()
	left := func(what string, n int, err error) {
		if err != nil || n > 0 {
			t.Errorf("%d %s are left: %v", n, what, err)
		}
	}
	all, err := core.Pods("").List(ctx, metav1.ListOptions{})
	left("pods", len(all.Items), err)
	machines, err := core.Nodes().List(ctx, metav1.ListOptions{})
	left("nodes", len(machines.Items), err)
	volumes, err := core.PersistentVolumes().List(ctx, metav1.ListOptions{})
	left("volumes", len(volumes.Items), err)
}

// crowdAllButOne binds a large pod to each node but the first, which all others would prefer then.
func (w *world) crowdAllButOne(t *testing.T) {
	t.Helper()
	for i := 1; i < w.nodes; i++ {
		p := w.pod(fmt.Sprintf("large-%d", i), nil)
		p.Spec.NodeName = fmt.Sprintf("compare-%05d", i)
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("24")
		if _, err := w.kube.CoreV1().Pods(w.namespace).Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}
