package differences_test

import (
	"regexp"
	"slices"
	"strings"
)

// A knownDifference is a deliberate one, or one that depends on chance, by the names of scenarios and the values.
type knownDifference struct {
	why       string
	scenarios *regexp.Regexp
	is        func(key, want, got string) bool
}

func known(scenario, key, want, got string) bool {
	return slices.ContainsFunc(knownDifferences, func(d knownDifference) bool {
		return d.scenarios.MatchString(scenario) && d.is(key, want, got)
	})
}

// newWords are what kube-scheduler 1.36 says otherwise: 1.37 says nothing of claims if a pod has none, on which device
// a selector fails and what to do about it, and where a pod goes that preempts others.
var newWords = regexp.MustCompile(`no new claims to deallocate, |(?: on device [^ :]+)?: CEL runtime error|\. consider using CEL optional chaining .* for optional fields| preemption: found a potential placement for pod on node \S+, preempting \d+ victims`)

// newer returns a state without what depends on the version.
func newer(s state) state {
	out := make(state, len(s))
	for key, value := range s {
		out[newWords.ReplaceAllString(key, "")] = newWords.ReplaceAllString(value, "")
	}
	return out
}

// keyIs tells that a key matches an expression.
func keyIs(expression string) func(key, want, got string) bool {
	e := regexp.MustCompile(expression)
	return func(key, _, _ string) bool { return e.MatchString(key) }
}

const (
	metricsNotServed = "(get pods.metrics.k8s.io)"
	noMetrics        = "no metrics returned from resource metrics API"
)

var knownDifferences = []knownDifference{
	{"1.36, with which it was recorded, does not fill in how many pods of a set may be unavailable", regexp.MustCompile(""), func(key, want, got string) bool {
		return strings.HasPrefix(key, "statefulsets/") && strings.HasSuffix(key, " .spec.updateStrategy.rollingUpdate.maxUnavailable") && want == "" && got == "1"
	}},
	{"a node that is given up is patched, so that what its kubelet writes at the same time does not get lost", regexp.MustCompile("^(clock, lease|random nodes)"), keyIs(`^write node-controller (update|patch) nodes/status$`)},
	{"the budget is named, and not its namespace twice", regexp.MustCompile("^clock, eviction"), keyIs(`^event Warning NotDeleted by controllermanager about Pod/one: `)},
	{"how often something is tried depends on time", regexp.MustCompile(`too little quota$|^random \d+$`), keyIs(`^event Warning .*\(combined from similar events\)`)},
	{"which steps a rollout takes depends on when pods become ready", regexp.MustCompile("^deployment, (rolling|stuck)"),
		keyIs(`^event Normal (ScalingReplicaSet|Scheduled|SuccessfulCreate|SuccessfulDelete) |^replicasets/\S+ \.(metadata\.generation|status\.observedGeneration)$`)},
	{"the node of a pod is not announced while its volumes and devices are prepared", regexp.MustCompile("^(volume|device claim|statefulset, claims|random claims|scheduler, (claim|volume))"), keyIs(`^pods/\S+ (\d+ )?\.(status\.nominatedNodeName|metadata\.managedFields\[\d+\])$|^write scheduler patch pods/status$`)},
	{"a configuration of all requests names none of them since 1.37", regexp.MustCompile("^device claim, configured$"), keyIs(`^resourceclaims/gpu \.status\.allocation\.devices\.config\[\d\]\.requests`)},
	{"what a user writes into the status of a quota is mended at once, and not after minutes", regexp.MustCompile("^quota, status changed by hand$"), keyIs(`^resourcequotas/q `)},
	{"what does not exist in a namespace is not asked to be deleted", regexp.MustCompile("^namespace, "), keyIs(`^write namespace-controller deletecollection `)},
	{"when a node's taints are seen is chance", regexp.MustCompile("^node, daemon set"), keyIs(`^event Warning FailedScheduling |^write scheduler patch pods/status$|managedFields`)},
	{"claims are made with their owners, and need no second write", regexp.MustCompile("^(statefulset, |random claims)"), keyIs(`^write statefulset-controller update persistentvolumeclaims$`)},
	{"a set that is being deleted makes no revisions in place of those that the garbage collector deletes", regexp.MustCompile("^statefulset, deleted in the foreground$"), keyIs(`^controllerrevisions/`)},
	{"the same, while the deletion waits for a claim in use", regexp.MustCompile("^random claims "), func(key, want, got string) bool {
		return strings.HasPrefix(key, "controllerrevisions/") && got == ""
	}},
	{"whether a pod is looked at before its claims are bound is chance", regexp.MustCompile("^(statefulset, claims|random claims)"), keyIs(`^event Warning FailedScheduling |^pods/\S+ \.metadata\.managedFields`)},
	{"both may delete what is mirrored from Endpoints that are gone", regexp.MustCompile("^(service|namespace), "), keyIs(`^write (generic-garbage-collector|endpointslicemirroring-controller) delete endpointslices$`)},
	{"Endpoints that somebody has changed are mended at once, and not with the next change of a pod", regexp.MustCompile("^service, endpoints changed by hand$"), keyIs(`^endpoints/web `)},
	{"nobody serves metrics beside the loops of Kubernetes, and hollow nodes without a port have none", regexp.MustCompile("^(autoscaler, |random autoscaler )"), func(key, want, got string) bool {
		return strings.HasPrefix(key, "event ") && (strings.Contains(key, noMetrics) || strings.Contains(key, metricsNotServed)) ||
			strings.Contains(want, metricsNotServed) && strings.Contains(got, noMetrics)
	}},
	{"where nobody serves metrics, Kubernetes' autoscaler complains every two seconds, and what it says later about the same object is dropped as too much", regexp.MustCompile("^random autoscaler "), func(key, want, _ string) bool {
		return strings.HasPrefix(key, "event ") && strings.Contains(key, " by horizontal-pod-autoscaler ") && want == ""
	}},
	{"counts of a daemon set follow its nodes also where no pod must be made or removed", regexp.MustCompile("^(node, daemon set|random nodes )"), keyIs(`^daemonsets/(web|all) \.status\.`)},
	{"a claim says at once for which pod it waits, and not with the next look at all claims", regexp.MustCompile("^(volume|scheduler)"), keyIs(`^event Normal WaitForPodScheduled `)},
	{"whether a claim is looked at before its new class is chance", regexp.MustCompile("^volume, unknown plugin$"), keyIs(`^event Warning ProvisioningFailed .* not found$`)},
	{"the user replaces the finalizer of the protection, and whether its loop sees the claim without it is chance", regexp.MustCompile("^scheduler, claim being deleted$"), keyIs(`^write pvc-protection-controller `)},
	{"a pod that waits for affinity is tried again when its victim begins to end, and not only when that is gone", regexp.MustCompile("^scheduler, preemption for affinity$"), keyIs(`^event Warning FailedScheduling |^pods/strong \.status\.conditions\.PodScheduled\.message$`)},
	{"whether a pod ends or is deleted before it is scheduled and told of is chance", regexp.MustCompile("^service, (pods that end|named port)$"), keyIs(`^write endpoint|last-change-trigger-time|^event Normal Scheduled `)},
	{"of two autoscalers either is named first", regexp.MustCompile("^autoscaler, two of them$"), keyIs(`controlled by multiple HPAs|^event Warning (AmbiguousSelector|FailedComputeMetricsReplicas) |\.conditions\.ScalingActive\.message$`)},
	{"whether a surplus pod is placed before it is deleted is chance", regexp.MustCompile("^(autoscaler, too many$|random autoscaler )"), keyIs(`^event Normal Scheduled `)},
	{"which of two equal nodes a pod gets is chance", regexp.MustCompile("^scheduler, (spread evenly|claim for one pod|claim unbound)"), keyIs(`^event Normal Scheduled |\.spec\.nodeName$`)},
	{"pods are not written when only their claims change", regexp.MustCompile("^(statefulset, claims|random claims)"), keyIs(`^event Normal SuccessfulUpdate |^write statefulset-controller update pods$`)},
	{"the annotation topology-mode does nothing: trafficDistribution replaces it", regexp.MustCompile("^service, traffic distribution$"), keyIs(`^event Warning TopologyAwareHintsDisabled `)},
	{"the path of a metric that nobody serves is not told", regexp.MustCompile("^autoscaler, external metric$"), keyIs(`unable to get external metric|\.conditions\.ScalingActive\.message$`)},
	{"while pods end, a namespace says that they remain, and not that all content was removed", regexp.MustCompile("^namespace, pods end slowly$"), keyIs(`^namespaces/NS \.status\.conditions\.NamespaceContentRemaining\.`)},
	{"the last rules of an aggregated role are removed by an update, as a user may own them", regexp.MustCompile("^account, aggregated role$"), keyIs(`^clusterroles/NS-all \.metadata\.managedFields|^write clusterrole-aggregation-controller update `)},
	{"a pod that has ended does not keep its claim", regexp.MustCompile("^volume, claim in use by a pod that has ended$"), keyIs(`^(persistentvolumes?|persistentvolumeclaims)/|^write pv`)},
	{"the pod is deleted for its taint and by the garbage collector, and who is first is chance", regexp.MustCompile("^node, out of service$"), keyIs(`^event Normal TaintManagerEviction |^write node-controller `)},
	{"which of equal pods goes is chance", regexp.MustCompile("^replicaset, (adopts|cost)"), keyIs(`^pods/|^event Normal SuccessfulDelete `)},
	{"when a pod is seen to change is chance", regexp.MustCompile("^service, "), keyIs(`last-change-trigger-time`)},
	{"whether a budget made together with its pods is looked at before them is chance", regexp.MustCompile("budget|^random nodes "), keyIs(`^event Normal NoPods `)},
}
