package differences_test

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// dice makes random scenarios. They are the same for the same seed.
type dice struct {
	*rand.Rand
	// made are the kinds of workload that the scenario has; each has one object, by the name of its kind's first
	// letter.
	made []string
	uses map[string]bool // other objects that are there
}

// randomScenario is a sequence of requests that are valid one after the other, most of them.
func randomScenario(seed uint64) scenario {
	d := &dice{Rand: rand.New(rand.NewPCG(seed, 0)), uses: map[string]bool{}}
	steps := []step{d.settled(d.create())}
	for range 2 + d.IntN(4) {
		if d.IntN(4) == 0 {
			steps = append(steps, d.settled(d.create()))
			continue
		}
		steps = append(steps, d.settled(d.change()))
	}
	return story(fmt.Sprint("random ", seed), steps...)
}

// settled gives a step the time that pods with delays need.
func (d *dice) settled(r request) step { return do(r).settling(7 * time.Second) }

// one returns one of some texts.
func (d *dice) one(of ...string) string { return of[d.IntN(len(of))] }

func (d *dice) annotations() string {
	return d.one("", "", "", "ready-after=2s", "stop-delay=2s", "start-delay=1s")
}

// create makes an object that is not there yet.
func (d *dice) create() request {
	workloads := []string{"deployments", "statefulsets", "daemonsets", "jobs", "replicasets"}
	kind := workloads[d.IntN(len(workloads))]
	for _, there := range d.made {
		if there == kind {
			return d.guard()
		}
	}
	d.made = append(d.made, kind)
	switch kind {
	case "deployments":
		return create(kind, "web", workload("web", d.IntN(5), d.deployment(), template("web", d.annotations(), d.one("", probed))))
	case "replicasets":
		return create(kind, "set", workload("set", d.IntN(4), d.one("", "minReadySeconds: 2"), template("set", d.annotations(), "")))
	case "statefulsets":
		return create(kind, "db", workload("db", d.IntN(4), "serviceName: db"+also(d.stateful()), template("db", d.annotations(), d.one("", probed))))
	case "daemonsets":
		return create(kind, "all", fmt.Sprintf("spec: {selector: {matchLabels: {app: all}}, template: %s%s}", template("all", d.annotations(), d.one("", "nodeSelector: {kubernetes.io/hostname: hollow-2}, "+oneContainer)), also(d.daemon())))
	}
	return create(kind, "one", fmt.Sprintf("spec: {template: %s%s}", template("one", d.one("", "run-for=1h", "run-for=500ms exit-code=1", "run-for=1h stop-delay=2s"), never), also(d.job())))
}

func (d *dice) deployment() string {
	return d.one("", "strategy: {type: Recreate}", "paused: true", "revisionHistoryLimit: 1", "minReadySeconds: 2",
		"strategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}", "strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 50%}}", "strategy: {rollingUpdate: {maxSurge: 100%, maxUnavailable: 0}}")
}

func (d *dice) stateful() string {
	return d.one("", "podManagementPolicy: Parallel", "updateStrategy: {type: OnDelete}", "updateStrategy: {rollingUpdate: {partition: 1}}", "minReadySeconds: 1", "ordinals: {start: 2}", "revisionHistoryLimit: 1")
}

func (d *dice) daemon() string {
	return d.one("", "updateStrategy: {type: OnDelete}", "updateStrategy: {rollingUpdate: {maxSurge: 50%, maxUnavailable: 0}}", "updateStrategy: {rollingUpdate: {maxUnavailable: 100%}}", "revisionHistoryLimit: 1")
}

func (d *dice) job() string {
	return d.one("", "parallelism: 2", "completions: 3, parallelism: 2", "completionMode: Indexed, completions: 3, parallelism: 2", "suspend: true", "backoffLimit: 1", "backoffLimit: 0, completions: 2, parallelism: 2",
		"completionMode: Indexed, completions: 3, parallelism: 3, backoffLimitPerIndex: 0", "podReplacementPolicy: Failed, parallelism: 2, completions: 2", "activeDeadlineSeconds: 4")
}

// guard makes an object that looks at pods, or changes it.
func (d *dice) guard() request {
	app := d.one("web", "db", "all", "set")
	kind := d.one("services", "poddisruptionbudgets", "resourcequotas", "pods")
	if d.uses[kind] {
		switch kind {
		case "services":
			return spec("services/web", d.one("selector: {app: "+app+"}", "publishNotReadyAddresses: true", "ports: [{port: 81}]"))
		case "poddisruptionbudgets":
			return patch("poddisruptionbudgets/web", "spec: {"+d.one("minAvailable: 1, maxUnavailable: null", "minAvailable: null, maxUnavailable: 1", "minAvailable: 50%, maxUnavailable: null")+"}")
		case "resourcequotas":
			return spec("resourcequotas/few", d.one("hard: {pods: 20}", "hard: {pods: 1}", "hard: {pods: 20, services: 2}"))
		}
		if d.IntN(2) == 0 {
			return remove("pods/loner", "")
		}
		return patch("pods/loner", "metadata: {labels: {app: "+app+"}}")
	}
	d.uses[kind] = true
	switch kind {
	case "services":
		return create(kind, "web", "spec: {"+d.one("", "clusterIP: None, ", "publishNotReadyAddresses: true, ")+"selector: {app: "+app+"}, ports: [{port: 80}]}")
	case "poddisruptionbudgets":
		return create(kind, "web", "spec: {"+d.one("minAvailable: 1", "maxUnavailable: 1", "minAvailable: 50%", "maxUnavailable: 0")+", selector: {matchLabels: {app: "+app+"}}}")
	case "resourcequotas":
		return create(kind, "few", "spec: {hard: {pods: "+d.one("1", "3", "8")+"}}")
	}
	return pod("loner", "app: "+app, d.annotations(), "")
}

// change changes a workload that is there, or its pods.
func (d *dice) change() request {
	kind := d.made[d.IntN(len(d.made))]
	switch kind {
	case "jobs":
		return d.changeJob()
	case "daemonsets":
		return d.changeDaemons()
	case "cronjobs":
		return patch(tick, "metadata: {labels: {a: "+d.one("b", "c")+"}}")
	}
	name := map[string]string{"deployments": "web", "replicasets": "set", "statefulsets": "db"}[kind]
	path := kind + "/" + name
	first := "{" + name + ":0}"
	all := []request{
		spec(path, fmt.Sprintf("replicas: %d", d.IntN(6))), spec(path, fmt.Sprintf("replicas: %d", d.IntN(3))), image(path, d.one("web:2", "web:3", "web:1")),
		remove("pods/"+first, d.one("", "gracePeriodSeconds: 0")), evict(first), spec(path, "minReadySeconds: "+d.one("0", "2")),
		strategic(path, "spec: {template: {metadata: {annotations: {hollow.millrace.dev/ready-after: "+d.one("1h", "0s")+"}}}}"),
		patch(path, "metadata: {labels: {a: "+d.one("b", "c")+"}}"),
	}
	switch kind {
	case "deployments":
		all = append(all, spec(path, "paused: "+d.one("true", "false")), patch(path, "spec: {strategy: "+d.one("{type: Recreate, rollingUpdate: null}", "{type: RollingUpdate, rollingUpdate: {maxSurge: 2, maxUnavailable: 1}}")+"}"))
	case "statefulsets":
		all = append(all, spec(path, "updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: "+d.one("0", "1", "2")+"}}"), spec(path, "ordinals: {start: "+d.one("0", "1", "3")+"}"), patch("pods/"+first, "metadata: {labels: {app: other}}"))
	}
	if i := d.IntN(len(all) + 1); i < len(all) {
		return all[i]
	}
	return d.removeWorkload(kind, path)
}

// removeWorkload deletes a workload. It may be made again.
func (d *dice) removeWorkload(kind, path string) request {
	if len(d.made) > 1 {
		for i := range d.made {
			if d.made[i] == kind {
				d.made = append(d.made[:i:i], d.made[i+1:]...)
				break
			}
		}
	}
	return remove(path, d.one(background, foreground, orphan))
}

func (d *dice) changeDaemons() request {
	const path = "daemonsets/all"
	all := []request{
		image(path, d.one("web:2", "web:3", "web:1")), remove("pods/{all:0}", ""), patch(path, "spec: {template: {spec: {nodeSelector: "+d.one("null", "{kubernetes.io/hostname: hollow-3}", "{none: none}")+"}}}"),
		spec(path, "updateStrategy: {type: OnDelete, rollingUpdate: null}"), spec(path, "minReadySeconds: "+d.one("0", "2")), evict("{all:0}"),
	}
	if i := d.IntN(len(all) + 1); i < len(all) {
		return all[i]
	}
	return d.removeWorkload("daemonsets", path)
}

// changeJob changes the job, or its pods.
func (d *dice) changeJob() request {
	const path = "jobs/one"
	all := []request{
		spec(path, "parallelism: "+d.one("0", "1", "2", "3")), spec(path, "suspend: "+d.one("true", "false")), remove("pods/{one:0}", ""), evict("{one:0}"),
		spec(path, "ttlSecondsAfterFinished: 1"), spec(path, "activeDeadlineSeconds: 3"),
	}
	if i := d.IntN(len(all) + 1); i < len(all) {
		return all[i]
	}
	return d.removeWorkload("jobs", path)
}
