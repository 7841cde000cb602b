package differences_test

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/faults"
	"github.com/millrace/millrace/loop"
)

// trials are the scenarios that are played with faults. Together every loop writes in them whatever it writes: see
// writesNothing.
func trials(alone bool) (out []*scenario) {
	wanted := []string{
		"namespace, a finalizer remains", "statefulset, claims Retain and Delete", "statefulset, orphaned and adopted", "statefulset, history of one", "deployment, orphaned and adopted", "deployment, rolled back", "deployment, history of none",
		"replicationcontroller, scaled", "daemonset, history of one", "daemonset, orphaned and adopted", "daemonset, with too little quota", "device claim, deleted in use", "account, token", "account, token that it names", "account, aggregated role",
		"autoscaler, too few", "garbage, chain", "garbage, owner in the cluster", "service, endpoints without addresses", "service, pods come and go", "service, load balancer", "certificate, of a client", "cronjob, Allow", "cronjob, failing job",
		"job, failed and removed", "job, elastic", "job, index fails at once by policy", "job, deleted in the foreground", "budget, of a deployment", "volume, class that waits", "volume, ephemeral", "volume, claim in use",
		"node, pods are evicted", "node, out of service", "node, pressure", "node, daemon set on nodes that come and go",
	}
	for _, s := range slices.Concat(scenarios(), onlyOurs()) {
		if s.alone == alone && (slices.Contains(wanted, s.name) || strings.HasPrefix(s.name, "ours, ")) {
			out = append(out, &s)
		}
	}
	return out
}

// onlyOurs are scenarios of loops for which nothing is recorded: Kubernetes has no such loop, or it needs drivers that
// are not there.
func onlyOurs() []scenario {
	const attributes = "metadata: {name: '{NS}-fast'}\ndriverName: example.com/disks\nparameters: {a: b}"
	attached := createFull("persistentvolumes", "metadata: {name: '{NS}-v'}\nspec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], claimRef: {namespace: '{NS}', name: data}, persistentVolumeReclaimPolicy: Retain, csi: {driver: example.com-{NS}, volumeHandle: x}}")
	node := createFull("nodes", "metadata: {name: '{NS}-a', annotations: {volumes.kubernetes.io/controller-managed-attach-detach: 'true'}, labels: {kubernetes.io/hostname: a}}\nstatus: {capacity: {cpu: 1, memory: 1Gi, pods: 10}, allocatable: {cpu: 1, memory: 1Gi, pods: 10}, conditions: [{type: Ready, status: 'True'}]}")
	return []scenario{
		story("ours, local volume", do(createFull("persistentvolumeclaims", "metadata: {name: data}\nspec: {resources: {requests: {storage: 1Gi}}, storageClassName: standard, accessModes: [ReadWriteOnce]}")), do(pod("one", "a: b", "", mounting("data"))), do(remove("pods/one", ""), remove("persistentvolumeclaims/data", ""))),
		story("ours, service range", do(createFull("servicecidrs", "metadata: {name: '{NS}-more'}\nspec: {cidrs: [10.222.0.0/24]}")), do(remove("servicecidrs/{NS}-more", ""))),
		story("ours, policy", do(createFull("validatingadmissionpolicies", "metadata: {name: '{NS}-p'}\nspec: {matchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}]}, validations: [{expression: 'object.spec.replicas > \"x\"'}]}"))),
		story("ours, attributes", do(createFull("volumeattributesclasses", attributes)), do(remove("volumeattributesclasses/{NS}-fast", ""))),
		story("ours, migration", do(createFull("configmaps", "metadata: {name: one}"), createFull("storageversionmigrations", "metadata: {name: '{NS}-m'}\nspec: {resource: {group: '', resource: configmaps}}"))),
		story("ours, tainted device", do(createFull("deviceclasses", "metadata: {name: '{NS}-gpu'}\nspec: {selectors: [{cel: {expression: 'device.driver == \"gpu.{NS}\"'}}]}"),
			createFull("resourceslices", "metadata: {name: '{NS}-s'}\nspec: {driver: gpu.{NS}, pool: {name: p, generation: 1, resourceSliceCount: 1}, nodeName: hollow-1, devices: [{name: d}]}"),
			createFull("resourceclaims", "metadata: {name: gpu}\nspec: {devices: {requests: [{name: r, exactly: {deviceClassName: '{NS}-gpu'}}]}}")),
			do(pod("one", "a: b", "", "resourceClaims: [{name: a, resourceClaimName: gpu}], "+oneContainer)),
			do(patch("resourceslices/{NS}-s", "spec: {devices: [{name: d, taints: [{key: broken, effect: NoExecute}]}]}"))),
		alone("ours, certificate of a node", do(createFull("certificatesigningrequests", "metadata: {name: '{NS}-a'}\nspec: {request: '{request of a node}', signerName: kubernetes.io/kube-apiserver-client-kubelet, usages: [client auth, digital signature]}"))),
		alone("ours, volume that is attached", do(createFull("csidrivers", "metadata: {name: 'example.com-{NS}'}\nspec: {attachRequired: true}"), node, attached, createFull("persistentvolumeclaims", "metadata: {name: data}\nspec: {resources: {requests: {storage: 1Gi}}, volumeName: '{NS}-v', storageClassName: '', accessModes: [ReadWriteOnce]}")),
			do(pod("one", "a: b", "", mounting("data"))), do(remove("pods/one", "gracePeriodSeconds: 0"))),
	}
}

// writesNothing are the loops that write nothing but events in trials.
var writesNothing = map[string]string{
	"persistentvolume-expander-controller":           "claims are grown by their drivers, and the loop only says so",
	"legacy-serviceaccount-token-cleaner-controller": "it looks once a day, and trials do not last that long",
	"podcertificaterequest-cleaner-controller":       "no trial has a pod that mounts a certificate",
}

const (
	// away is how long the API is away, and pace how long each step of a trial takes. Whatever failed was tried again
	// by then.
	away = 10 * time.Minute
	pace = away + 6*time.Minute
	// shortly is how long a step takes on nodes that trials make: nobody renews their leases, so they are given up
	// soon.
	shortly = 10 * time.Second
	// aftermath is how long trials go on after their last step, without faults: certificates are cleaned up in that
	// time.
	aftermath = 65 * time.Minute
)

// outcome is what trials leave: a state for each, and one of what belongs to none.
type outcome map[string]state

// ordeal is what happens to the loops during trials.
type ordeal struct {
	// plan has the faults.
	plan faults.Plan
	// outages says that the API goes away in the middle of each step. Those of trials that make nodes are too short for
	// that.
	outages bool
}

// try plays trials, and returns what they leave, and which faults happened.
func (o ordeal) try(t *testing.T) (outcome, []faults.Rule) {
	out, happened := outcome{}, []faults.Rule{}
	for apart, nodes := range map[bool]int{false: hollowNodes, true: 0} {
		transport := faults.New(o.plan)
		synctest.Test(t, func(t *testing.T) {
			w := faulty(t, nodes, transport)
			time.Sleep(time.Minute)
			if apart {
				o.oneByOne(w, transport, out)
			} else {
				o.together(w, transport, out)
			}
			out[fmt.Sprint("the system, apart: ", apart)] = w.furniture()
		})
		happened = append(happened, transport.Happened().Rules...)
	}
	return out, happened
}

// together plays the trials on nodes that all share: the first steps of all of them, then the second ones, and so on.
// At the end the faults cease.
func (o ordeal) together(w *world, transport *faults.Transport, out outcome) {
	var looks []*look
	most := 0
	for i, s := range trials(false) {
		ns := fmt.Sprint("trial", i)
		w.begin(ns)
		looks, most = append(looks, newLook(w, s, ns)), max(most, len(s.steps))
	}
	for step := range most {
		began := time.Now()
		for _, l := range looks {
			if step < len(l.scenario.steps) {
				w.perform(l, l.scenario.steps[step].requests)
			}
		}
		if o.outages {
			time.Sleep(time.Duration(step+1) * 300 * time.Millisecond) // in the middle of something, each time of something else
			transport.Down(away)
		}
		time.Sleep(pace - time.Since(began))
	}
	transport.Heal()
	time.Sleep(aftermath)
	for _, l := range looks {
		out[l.scenario.name] = lasting(l.take(state{}))
	}
}

// oneByOne plays the trials that make nodes of their own. At the end the faults cease.
func (o ordeal) oneByOne(w *world, transport *faults.Transport, out outcome) {
	var looks []*look
	for i, s := range trials(true) {
		l := newLook(w, s, fmt.Sprint("trial", i))
		w.begin(l.ns)
		for _, one := range s.steps {
			w.perform(l, one.requests)
			time.Sleep(max(one.settle, shortly))
		}
		looks = append(looks, l)
		time.Sleep(pace) // its nodes are given up
		w.removeNodes(l.ns)
	}
	transport.Heal()
	time.Sleep(aftermath)
	for _, l := range looks {
		out[l.scenario.name] = lasting(l.take(state{}))
	}
}

// removeNodes deletes the nodes of a trial, so that the next one has only its own.
func (w *world) removeNodes(ns string) {
	for _, o := range w.list("nodes", "") {
		if name := nameOf(o); strings.HasPrefix(name, ns+"-") {
			w.send(http.MethodDelete, "/api/v1/nodes/"+name, "", nil)
		}
	}
}

// passing are the parts of a state that tell how it was reached. What an autoscaler did last is among them: it writes
// that once, after the deed, and does not say it again as long as there are no metrics.
var passing = regexp.MustCompile(`^(event|write) |\.metadata\.(managedFields|generation|annotations\.endpoints\.kubernetes\.io/last-change-trigger-time)|\.observedGeneration$|\.(restartCount|collisionCount)$|` +
	`^storageversionmigrations/\S+ \.status\.resourceVersion$|^horizontalpodautoscalers/\S+ \.status\.(desiredReplicas|lastScaleTime)$`)

// lasting is a state without what tells how it was reached. The finalizer of a claim for devices comes before them and
// goes after them: if a program dies in between, the claim keeps it until it gets devices again or is deleted, as in
// Kubernetes.
func lasting(s state) state {
	maps.DeleteFunc(s, func(key, _ string) bool {
		claim, field, _ := strings.Cut(key, " ")
		return passing.MatchString(key) || strings.HasPrefix(claim, "resourceclaims/") && strings.HasPrefix(field, ".metadata.finalizers") && !s.matches(regexp.MustCompile("^"+regexp.QuoteMeta(claim)+` \.status\.allocation`))
	})
	return s
}

// kindOfWrite is by a loop, and to a resource.
type kindOfWrite struct{ loop, verb, resource string }

// writesOf are the writes among requests.
func writesOf(all []faults.Rule) map[kindOfWrite]int {
	out := map[kindOfWrite]int{}
	for _, r := range all {
		if r.Resource != "events" && !slices.Contains([]string{"get", "list", "watch"}, r.Verb) && !strings.HasSuffix(r.Resource, "reviews") {
			out[kindOfWrite{r.User, r.Verb, r.Resource}]++
		}
	}
	return out
}

// faultsFor are the faults for each kind of write: one that strikes before the first write of an object, and one after
// the second, which may be the first once more. With -all they strike more objects.
func faultsFor(writes map[kindOfWrite]int, before, after faults.Fault) (out []faults.Rule) {
	times := 2
	if *all {
		times = 10
	}
	for w := range writes {
		rule := faults.Rule{User: w.loop, Verb: w.verb, Resource: w.resource, Times: times}
		rule.Nth, rule.Fault = 1, before
		out = append(out, rule)
		rule.Nth, rule.Fault = 2, after
		out = append(out, rule)
	}
	return out
}

// TestWhereverLoopsDieAllEndsTheSame plays trials three times: without faults; with all loops killed before or after
// each kind of write of each of them; and with requests and answers lost, and the API away for ten minutes in each
// step. All times the same must be left.
func TestWhereverLoopsDieAllEndsTheSame(t *testing.T) {
	var seen []faults.Rule
	for _, verb := range []string{"create", "update", "patch", "delete", "deletecollection"} {
		seen = append(seen, faults.Rule{Verb: verb, Chance: 1, Fault: faults.Delay, For: time.Nanosecond}) // a fault that does nothing, so that writes are told
	}
	want, happened := ordeal{plan: faults.Plan{Rules: seen}}.try(t)
	writes := writesOf(happened)
	checkThatAllWrite(t, writes)

	for name, o := range map[string]ordeal{
		"deaths":  {plan: faults.Plan{Rules: faultsFor(writes, faults.CrashBefore, faults.Crash)}},
		"outages": {plan: faults.Plan{Rules: faultsFor(writes, faults.LostRequest, faults.LostAnswer)}, outages: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, happened := o.try(t)
			struck := writesOf(happened)
			t.Logf("%d faults at %d kinds of writes", len(happened), len(struck))
			checkThatAllWrite(t, struck)
			compareOutcomes(t, want, got)
		})
	}
}

// checkThatAllWrite reports loops that have written nothing, so that a new loop gets a trial.
func checkThatAllWrite(t *testing.T, writes map[kindOfWrite]int) {
	all, _ := loop.Names(allLoops())
	for _, name := range append(all, schedulerName) {
		does := false
		for w := range writes {
			does = does || w.loop == name
		}
		if _, never := writesNothing[name]; does == never {
			t.Errorf("%s: it has written: %v; it never does: %v", name, does, never)
		}
	}
}

// compareOutcomes reports what differs.
func compareOutcomes(t *testing.T, want, got outcome) {
	for _, name := range keys(want) {
		var differ []string
		for _, key := range keys(want[name]) {
			if g, there := got[name][key]; !there || g != want[name][key] {
				differ = append(differ, fmt.Sprintf("  %s = %s, want %s", key, g, want[name][key]))
			}
		}
		for _, key := range keys(got[name]) {
			if _, there := want[name][key]; !there {
				differ = append(differ, fmt.Sprintf("  %s = %s, and should not be there", key, got[name][key]))
			}
		}
		if len(differ) > 0 {
			t.Errorf("%s:\n%s", name, strings.Join(differ, "\n"))
		}
	}
}
