//go:build unix

package main

import "strings"

// group is a set of tests that a run leaves out.
type group struct {
	why   string
	tests []string // regular expressions
}

// beyondHollow are the tests that hollow nodes cannot pass, or pass without having tested anything: nothing listens at
// the address of a hollow pod, its containers do only what its annotations say, and it has no files.
var beyondHollow = []group{
	{"something must answer at the address of a pod or of a service", []string{
		`[wW]ebhook`, `\] Aggregator `, `CustomResourceFieldSelectors`, `ServiceAccountIssuerDiscovery`,
		`\[sig-network\] (DNS|HostPort|Networking|Proxy) `, `\[sig-network\] EndpointSlice should support a Service with multiple`,
		`\[sig-network\] Services should (be able to|have session affinity|serve )`,
		`(ReplicaSet|ReplicationController) should serve a basic image`, `Guestbook|Update Demo`,
	}},
	{"a program must run in the container: what it prints, how it ends, what it finds", []string{
		`should mount (an API token into pods|projected service account token)`, `Kubectl (logs|client Kubectl expose)`,
		`StatefulSet .*(rolling updates and roll backs of template|stateful pod is unhealthy|even with unhealthy pods)`,
		`Job should (allow to use the pod failure policy on exit code|execute all indexes despite|mark indexes as failed|terminate job execution)|Job with successPolicy succeeded(Count|Indexes)`,
		`\[sig-node\] (Containers?|Ephemeral Containers|InitContainer|Kubelet|Pod InPlace Resize|PreStop|Probing container|Security Context|Sysctls) `,
		`\[sig-node\] Pods should (contain environment|support )`,
	}},
	{"a container must have files and an environment", []string{
		`\[sig-node\] (Downward API|ImageVolume|KubeletManagedEtcHosts|Variable Expansion) `, `\[sig-node\] (ConfigMap|Secrets) should be consumable`,
		`\[sig-storage\] (Downward API|EmptyDir|Projected|Subpath) `, `\[sig-storage\] (ConfigMap|Secrets) (.*consumable|.*volume)`,
	}},
	{"a job's container must run for long, and hollow ones end after a second", []string{
		`CronJob should (schedule multiple jobs concurrently|replace jobs when|not schedule new jobs when Forbid)`,
		`Job should (allow to use a pod failure policy to ignore|delete a job|adopt matching orphans|apply changes to a job status)`,
	}},
	{"a container must take long to stop, and hollow ones stop at once", []string{`custom-set generation on new pods and graceful delete`}},
	{"an image that does not exist must fail, and hollow nodes take every image", []string{`proportional scaling|rollback without unnecessary restarts`}},
}

// lengthy are tests that hollow nodes pass, but that take a minute or more each, and most of them alone.
var lengthy = []group{
	{"they wait for what must not happen, or for the end of a time", []string{
		`\[Slow\]`, `continue listing from the last key if the original version has been compacted`, `hostPort and protocol but one using 0\.0\.0\.0`, `NoExecuteTaintManager`,
	}},
	{"each first waits a minute for pods of kube-proxy, which is no pod here", []string{`SchedulerPreemption`}},
	{"it sends 500 updates slowly", []string{`issue 500 podspec updates`}},
}

// skipping returns a regular expression for the tests of groups, and for those that another one matches.
func skipping(other string, groups []group) string {
	var all []string
	if other != "" {
		all = append(all, other)
	}
	for _, g := range groups {
		all = append(all, g.tests...)
	}
	return strings.Join(all, "|")
}
