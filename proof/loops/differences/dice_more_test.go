package differences_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// moreScenario is as randomScenario, with CronJobs, claims of stateful sets, autoscalers, and evictions that a budget
// may forbid. It is a generator of its own, because scenarios of the other one are recorded, and a seed must go on to
// mean the same.
func moreScenario(seed uint64) scenario {
	d := &dice{Rand: rand.New(rand.NewPCG(seed, 1)), uses: map[string]bool{}}
	about, steps := d.begin()
	for range 3 + d.IntN(3) {
		steps = append(steps, d.more())
	}
	return story(fmt.Sprintf("random %s %d", about, seed), steps...)
}

// begin makes what a scenario is about, and says what that is.
func (d *dice) begin() (about string, steps []step) {
	switch d.IntN(4) {
	case 0:
		return "cronjob", d.cron()
	case 1:
		return "claims", []step{d.claiming()}
	case 2:
		return "autoscaler", []step{d.scaled()}
	}
	return "budget", []step{d.settled(d.create()), d.settled(d.budget())}
}

const (
	tick = "cronjobs/tick"
	data = "volumeClaimTemplates: [{metadata: {name: data}, spec: {storageClassName: '', accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]"
)

// cron makes a CronJob, waits for its first Job, and suspends it: from then on time changes nothing.
func (d *dice) cron() []step {
	d.made = append(d.made, "cronjobs")
	make := create("cronjobs", "tick", fmt.Sprintf("spec: {schedule: '* * * * *', concurrencyPolicy: %s%s, jobTemplate: {spec: {template: %s%s}}}", d.one("Allow", "Forbid", "Replace"),
		also(d.one("", "successfulJobsHistoryLimit: 1", "startingDeadlineSeconds: 50", "timeZone: Europe/Berlin")), template("tick", d.one("", "run-for=1h", "run-for=500ms exit-code=1"), never), also(d.one("", "parallelism: 2", "backoffLimit: 0", "ttlSecondsAfterFinished: 2"))))
	return []step{do(make).awaiting("^jobs/tick-MINUTE |^event Normal SawCompletedJob "), do(spec(tick, "suspend: true")).settling(15 * time.Second)}
}

// claiming makes a stateful set whose pods claim volumes. Those of the first two are there.
func (d *dice) claiming() step {
	d.made = append(d.made, "statefulsets")
	retention := fmt.Sprintf("persistentVolumeClaimRetentionPolicy: {whenDeleted: %s, whenScaled: %s}, ", d.one("Retain", "Delete"), d.one("Retain", "Delete"))
	var all []request
	for n := range 2 {
		all = append(all, createFull("persistentvolumes", fmt.Sprintf("metadata: {name: '{NS}-%d'}\nspec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], claimRef: {namespace: '{NS}', name: data-db-%d}, hostPath: {path: /tmp/x}, persistentVolumeReclaimPolicy: Retain}", n, n)))
	}
	all = append(all, create("statefulsets", "db", workload("db", d.IntN(4), "serviceName: db, "+retention+data+also(d.one("", "podManagementPolicy: Parallel")), template("db", "", ""))))
	return do(all...).settling(8 * time.Second)
}

// scaled makes a deployment with an autoscaler. There are no metrics where Kubernetes' own loops run, so only its
// bounds count.
func (d *dice) scaled() step {
	d.made, d.uses["horizontalpodautoscalers"] = append(d.made, "deployments"), true
	return do(create("deployments", "web", workload("web", 1+d.IntN(5), d.deployment(), template("web", "", "containers: [{name: main, image: 'web:1', resources: {requests: {cpu: 100m}}}]"))),
		create("horizontalpodautoscalers", "web", fmt.Sprintf("spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, minReplicas: %d, maxReplicas: %d}", 1+d.IntN(2), 2+d.IntN(3)))).settling(20 * time.Second)
}

// more is one more step.
func (d *dice) more() step {
	switch i := d.IntN(10); {
	case i < 2:
		return d.settled(d.budget())
	case i == 2:
		return d.settled(d.create())
	case d.uses["horizontalpodautoscalers"]:
		return do(d.oneOf(d.rescale(), d.changeAny())).settling(20 * time.Second)
	}
	return d.settled(d.changeAny())
}

// oneOf returns one of some requests.
func (d *dice) oneOf(of ...request) request { return of[d.IntN(len(of))] }

// budget makes a budget for a workload, changes it, or evicts a pod that it may protect.
func (d *dice) budget() request {
	app := d.one("web", "db", "all", "set")
	switch {
	case !d.uses["poddisruptionbudgets"]:
		d.uses["poddisruptionbudgets"] = true
		return create("poddisruptionbudgets", "web", "spec: {"+d.one("minAvailable: 1", "maxUnavailable: 1", "minAvailable: 50%", "maxUnavailable: 0", "maxUnavailable: 50%")+
			also(d.one("", "unhealthyPodEvictionPolicy: AlwaysAllow"))+", selector: {matchExpressions: [{key: app, operator: In, values: [web, db, all, set, one, tick]}]}}")
	case d.IntN(3) == 0:
		return patch("poddisruptionbudgets/web", "spec: {"+d.one("minAvailable: 1, maxUnavailable: null", "minAvailable: null, maxUnavailable: 1", "minAvailable: 100%, maxUnavailable: null")+"}")
	}
	return evict("{" + app + ":0}")
}

// rescale changes an autoscaler.
func (d *dice) rescale() request {
	const path = "horizontalpodautoscalers/web"
	return d.oneOf(spec(path, fmt.Sprintf("minReplicas: %d, maxReplicas: %d", 1+d.IntN(3), 3+d.IntN(3))), spec(path, "scaleTargetRef: {name: "+d.one("web", "nobody")+"}"), spec("deployments/web", "replicas: "+d.one("0", "1", "6")))
}

// changeAny changes a workload that is there.
func (d *dice) changeAny() request {
	if !slices.Contains(d.made, "cronjobs") || len(d.made) > 1 && d.IntN(2) == 0 {
		return d.change()
	}
	switch d.IntN(6) {
	case 0:
		return spec(tick, "successfulJobsHistoryLimit: 0, failedJobsHistoryLimit: 0")
	case 1:
		return patch(tick, "metadata: {labels: {a: b}}")
	case 2:
		return remove("jobs/{tick:0}", d.one(background, foreground, orphan))
	case 3:
		return remove("pods/{tick:0}", d.one("", "gracePeriodSeconds: 0"))
	case 4:
		return evict("{tick:0}")
	}
	return d.removeWorkload("cronjobs", tick)
}
