//go:build unix

package main

import (
	"regexp"
	"testing"
)

func TestHollowNodesLeaveOutWhatTheyCannotPass(t *testing.T) {
	leftOut := regexp.MustCompile(skipping("", beyondHollow))
	for name, want := range map[string]bool{
		"[sig-network] Services should be able to create a functioning NodePort service [Conformance]":                            true,
		"[sig-network] Services should complete a service status lifecycle [Conformance]":                                         false,
		"[sig-node] Container Runtime blackbox test when starting a container that exits should run with the expected status":     true,
		"[sig-node] ConfigMap should be consumable via the environment [NodeConformance] [Conformance]":                           true,
		"[sig-node] ConfigMap should run through a ConfigMap lifecycle [Conformance]":                                             false,
		"[sig-storage] Secrets should be consumable from pods in volume [NodeConformance] [Conformance]":                          true,
		"[sig-storage] Secrets should be immutable if `immutable` field is set [Conformance]":                                     false,
		"[sig-api-machinery] AdmissionWebhook [Privileged:ClusterAdmin] should be able to deny pod and configmap creation":        true,
		"[sig-api-machinery] AggregatedDiscovery should support raw aggregated discovery endpoint Accept headers [Conformance]":   false,
		"[sig-apps] Job should terminate job execution when the number of failed indexes exceeds maxFailedIndexes [Conformance]":  true,
		"[sig-apps] Job should manage the lifecycle of a job [Conformance]":                                                       false,
		"[sig-apps] Deployment deployment should support proportional scaling [Conformance]":                                      true,
		"[sig-apps] Deployment deployment should support rollover [Conformance]":                                                  false,
		"[sig-scheduling] SchedulerPreemption [Serial] validates basic preemption works [Conformance]":                            false,
		"[sig-node] Pods Extended (pod generation) Pod Generation pod generation should start at 1 and increment per update [Co]": false,
	} {
		if got := leftOut.MatchString(name); got != want {
			t.Errorf("%s: left out is %t, want %t", name, got, want)
		}
	}
	for _, g := range append(beyondHollow, lengthy...) {
		if g.why == "" || len(g.tests) == 0 {
			t.Errorf("the group %+v has no reason or no tests", g)
		}
	}
}

func TestTheCallersOwnSkipStays(t *testing.T) {
	all := regexp.MustCompile(skipping("Pods", []group{{"a reason", []string{"Nodes", "Jobs"}}}))
	for _, name := range []string{"Pods", "Nodes", "Jobs"} {
		if !all.MatchString(name) {
			t.Errorf("%s is not left out by %s", name, all)
		}
	}
}
