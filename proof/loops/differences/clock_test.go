package differences_test

import (
	"cmp"
	"fmt"
	"regexp"
	"time"
)

// instant is a time in a request, counted from when it is sent: {now}, {now-1h} or {now+90s}.
var instant = regexp.MustCompile(`\{now([+-]\w+)?\}`)

// countedFrom replaces instants, in the form that objects have for exact times. Other times may have it too.
func countedFrom(now time.Time, text string) string {
	return instant.ReplaceAllStringFunc(text, func(found string) string {
		offset, err := time.ParseDuration(cmp.Or(instant.FindStringSubmatch(found)[1], "0s"))
		if err != nil {
			panic(err) // of a scenario's own
		}
		return now.Add(offset).UTC().Format("2006-01-02T15:04:05.000000Z")
	})
}

// clockScenarios are about clocks that jump. The clock of the machine stays as it is; instead, times that loops have
// noted in objects, and go by, are moved: those of a clock that has jumped forward lie long ago, and those of one that
// has jumped back lie ahead. What loops remember without noting it (when they saw a lease change, the age of a pod in
// their own queue) they measure by a clock that does not jump, so that there is nothing to compare.
func clockScenarios() []scenario {
	const (
		one    = "jobs/one"
		web    = "deployments/web"
		budget = "poddisruptionbudgets/web"
		mine   = ", selector: {matchLabels: {app: web}}"
	)
	first := "^jobs/tick-MINUTE "
	cron := func(schedule, more string) request {
		return create("cronjobs", "tick", fmt.Sprintf("spec: {schedule: %q%s, jobTemplate: {spec: {template: %s}}}", schedule, also(more), template("tick", "run-for=1h", never)))
	}
	last := func(when string) request { return patchStatus(tick, "{lastScheduleTime: '{now"+when+"}'}") }
	suspended := do(spec(tick, "suspend: true")).settling(5 * time.Second)
	job := func(more, annotations string) request {
		return create("jobs", "one", fmt.Sprintf("spec: {template: %s%s}", template("one", annotations, never), also(more)))
	}
	// ended is a Job of somebody else, who says that it has ended: the one whose times a user can choose.
	ended := func(kind, when string) request {
		before := map[string]string{"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}[kind]
		completion := map[string]string{"Complete": ", completionTime: '{now" + when + "}'"}[kind]
		return patchStatus(one, fmt.Sprintf("{startTime: '{now-3h}'%s, conditions: [{type: %s, status: 'True', lastTransitionTime: '{now%s}'}, {type: %s, status: 'True', lastTransitionTime: '{now%s}'}]}", completion, before, when, kind, when))
	}
	progress := func(when string) request {
		return patchStatus(web, "{conditions: [{type: Progressing, status: 'True', reason: ReplicaSetUpdated, lastUpdateTime: '{now"+when+"}', lastTransitionTime: '{now"+when+"}'}]}")
	}
	slowly := func(deadline int) request {
		return create("deployments", "web", workload("web", 1, fmt.Sprintf("progressDeadlineSeconds: %d", deadline), template("web", "ready-after=1h", "")))
	}
	evicted := func(name, when string) scenario {
		return story(name, do(pod("one", "app: web", "", ""), pod("two", "app: web", "", "")), do(create("poddisruptionbudgets", "web", "spec: {minAvailable: 1"+mine+"}")),
			do(patchStatus(budget, "{disruptedPods: {one: '{now"+when+"}'}}")).settling(5*time.Second), do(evict("two")))
	}
	out := []scenario{
		story("clock, cron job of two years ago", do(cron("0 0 1 6 *", ""), last("-17600h")).awaiting(first), suspended),
		story("clock, cron job of two years ago and a deadline", do(cron("0 0 1 6 *", "startingDeadlineSeconds: 60"), last("-17600h")).settling(10*time.Second)),
		story("clock, cron job that was to run too often", do(cron("* * * * *", ""), last("-48h")).awaiting(first), suspended),
		story("clock, cron job that was to run too often, forbidden", do(cron("* * * * *", "concurrencyPolicy: Forbid, startingDeadlineSeconds: 100000"), last("-48h")).awaiting(first), suspended),
		story("clock, cron job that ran in the future", do(cron("* * * * *", ""), last("+2h")).settling(70*time.Second)),
		story("clock, cron job that ran in the future and a deadline", do(cron("* * * * *", "startingDeadlineSeconds: 200"), last("+2h")).settling(70*time.Second)),
		story("clock, job that ended long ago", do(job("managedBy: example.com/mine, ttlSecondsAfterFinished: 600", "")), do(ended("Complete", "-1h")).settling(6*time.Second)),
		story("clock, job that ended in the future", do(job("managedBy: example.com/mine, ttlSecondsAfterFinished: 2", "")), do(ended("Complete", "+1h")).settling(8*time.Second)),
		story("clock, job that failed long ago", do(job("managedBy: example.com/mine, ttlSecondsAfterFinished: 600", "")), do(ended("Failed", "-1h")).settling(6*time.Second)),
		story("clock, job that failed in the future", do(job("managedBy: example.com/mine, ttlSecondsAfterFinished: 2", "")), do(ended("Failed", "+1h")).settling(8*time.Second)),
		story("clock, job that began long ago goes on", do(job("suspend: true, activeDeadlineSeconds: 600", "run-for=1h")), do(patchStatus(one, "{startTime: '{now-1h}'}")), do(spec(one, "suspend: false")).settling(8*time.Second)),
		story("clock, running job that began long ago", do(job("activeDeadlineSeconds: 600", "run-for=1h")), do(patchStatus(one, "{startTime: '{now-1h}'}")).settling(6*time.Second)),
		story("clock, deployment without progress for long", do(slowly(600)), do(progress("-1h")).settling(6*time.Second)),
		story("clock, deployment with progress in the future", do(slowly(4)).settling(2*time.Second), do(progress("+1h")).settling(10*time.Second)),
		evicted("clock, eviction long ago", "-10m"), evicted("clock, eviction a minute ago", "-1m"), evicted("clock, eviction in the future", "+10m"),
	}
	return append(out, nodeClockScenarios()...)
}

// nodeClockScenarios are those that need nodes of their own, or pods whose times a kubelet would mend.
func nodeClockScenarios() []scenario {
	const app = "replicasets/web"
	lease := "leases/{NS}-a"
	renewed := func(when string) step {
		return do(patch(lease, "spec: {renewTime: '{now"+when+"}'}")).settling(15 * time.Second)
	}
	leased := func(when string) step {
		return do(machine("a", "", ""), createFull("leases", "metadata: {name: '{NS}-a'}\nspec: {holderIdentity: '{NS}-a', leaseDurationSeconds: 40, renewTime: '{now"+when+"}'}")).settling(15 * time.Second)
	}
	ready := func(when string) request {
		return patchStatus("pods/{web:0}", "{phase: Running, conditions: [{type: Ready, status: 'True', lastTransitionTime: '{now"+when+"}'}, {type: ContainersReady, status: 'True'}], containerStatuses: [{name: main, ready: true, image: x, imageID: x, state: {running: {startedAt: '{now"+when+"}'}}}]}")
	}
	set := create("replicasets", "web", workload("web", 1, "minReadySeconds: 600", template("web", "", "")))
	daemons := create("daemonsets", "web", "spec: {minReadySeconds: 600, selector: {matchLabels: {app: web}}, template: "+template("web", "", "")+"}")
	stateful := create("statefulsets", "web", workload("web", 2, "serviceName: web, minReadySeconds: 600", template("web", "", "")))
	failed := func(when string) request {
		return patchStatus("pods/{one:0}", "{phase: Failed, containerStatuses: [{name: main, image: x, imageID: x, state: {terminated: {exitCode: 1, startedAt: '{now"+when+"}', finishedAt: '{now"+when+"}'}}}]}")
	}
	failing := create("jobs", "one", "spec: {template: "+template("one", "", never)+"}")
	tolerant := pod("one", "a: b", "", "tolerations: [{key: mine, operator: Exists, effect: NoExecute, tolerationSeconds: 600}], "+oneContainer)
	impatient := pod("one", "a: b", "", "tolerations: [{key: mine, operator: Exists, effect: NoExecute, tolerationSeconds: 3}], "+oneContainer)
	tainted := func(when string) step {
		return do(taints("a", "{key: mine, value: 'yes', effect: NoExecute, timeAdded: '{now"+when+"}'}")).settling(8 * time.Second)
	}
	return []scenario{
		alone("clock, lease of a node whose clock is behind", leased("-1h"), renewed("-1h"), renewed("-1h"), renewed("-1h"), renewed("-1h"), renewed("-1h")),
		alone("clock, lease of a node whose clock is ahead", leased("+1h"), renewed("+1h"), renewed("+1h"), renewed("+1h"), renewed("+1h"), renewed("+1h")),
		alone("clock, lease of a node whose clock jumps back", leased("+1h"), renewed(""), renewed(""), renewed(""), renewed(""), renewed("").awaiting(`^nodes/NS-a \.status\.conditions\.Ready\.status = "Unknown"`), renewed("+2h")),
		alone("clock, lease of a node whose clock jumps forward", leased(""), renewed("+1h"), renewed("+1h"), renewed("+1h"), renewed("+1h"), renewed("+1h")),
		alone("clock, pod ready long ago", do(machine("a", "", "")), do(set), do(ready("-1h")).settling(4*time.Second)),
		alone("clock, pod ready in the future", do(machine("a", "", "")), do(create("replicasets", "web", workload("web", 1, "minReadySeconds: 2", template("web", "", "")))), do(ready("+1h")).settling(6*time.Second), do(spec(app, "minReadySeconds: 0")).settling(3*time.Second)),
		alone("clock, pod of a daemon set ready long ago", do(machine("a", "", "")), do(daemons), do(ready("-1h")).settling(4*time.Second)),
		alone("clock, pod of a daemon set ready in the future", do(machine("a", "", "")), do(daemons), do(ready("+1h")).settling(4*time.Second)),
		alone("clock, pod of a stateful set ready long ago", do(machine("a", "", "")), do(stateful), do(ready("-1h")).settling(4*time.Second)),
		alone("clock, pod of a stateful set ready in the future", do(machine("a", "", "")), do(stateful), do(ready("+1h")).settling(4*time.Second)),
		alone("clock, pod of a job failed long ago", do(machine("a", "", "")), do(failing), do(failed("-1h")).settling(5*time.Second)),
		alone("clock, pod of a job failed in the future", do(machine("a", "", "")), do(failing), do(failed("+1h")).settling(14*time.Second)),
		alone("clock, taint of long ago", do(machine("a", "", "")), do(tolerant), tainted("-1h")),
		alone("clock, taint of the future", do(machine("a", "", "")), do(impatient), tainted("+1h")),
	}
}
