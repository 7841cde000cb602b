package differences_test

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// nodesScenario is a random scenario on three nodes of its own without kubelets: they are tainted, cordoned, lost and
// deleted, and pods are evicted. What chooses between equal nodes is chance, so pods that are not a daemon set's are
// bound to one by its name. There are few steps: a node whose kubelet says nothing for longer is given up.
func nodesScenario(seed uint64) scenario {
	d := &dice{Rand: rand.New(rand.NewPCG(seed, 2)), uses: map[string]bool{}}
	steps := []step{do(machine("a", "", ""), machine("b", d.one("", "role: x"), ""), machine("c", "", d.one("", "taints: ["+noSchedule+"]"))), do(d.inhabitants()...)}
	for range 2 + d.IntN(3) {
		steps = append(steps, d.happening())
	}
	if d.IntN(3) == 0 {
		steps = append(steps, do(remove("nodes/{NS}-"+d.one("a", "b"), "")).settling(75*time.Second)) // its pods are collected in a minute
	}
	return alone(fmt.Sprint("random nodes ", seed), steps...)
}

// inhabitants are what runs on the nodes.
func (d *dice) inhabitants() []request {
	const tolerates = "tolerations: [{key: mine, operator: Exists, effect: NoExecute%s}], "
	on := func(name string) string {
		return "nodeSelector: {kubernetes.io/hostname: " + name + "}, " + oneContainer
	}
	daemons := d.one("", fmt.Sprintf(tolerates, ""), "tolerations: [{operator: Exists}], ") + d.one("", "nodeSelector: {role: x}, ") + oneContainer
	all := []request{
		create("daemonsets", "all", fmt.Sprintf("spec: {selector: {matchLabels: {app: all}}, template: %s%s}", template("all", "", daemons), also(d.daemon()))),
		pod("one", "app: one", "", on(d.one("a", "b"))),
		pod("short", "app: one", "", fmt.Sprintf(tolerates, ", tolerationSeconds: "+d.one("2", "4"))+on("a")),
		create("replicasets", "set", workload("set", 1+d.IntN(2), "", template("set", "", d.one("", fmt.Sprintf(tolerates, ""))+on(d.one("a", "b"))))),
		create("statefulsets", "db", workload("db", 1+d.IntN(2), "serviceName: db", template("db", "", on(d.one("a", "b"))))),
		create("poddisruptionbudgets", "some", "spec: {maxUnavailable: "+d.one("0", "1")+", selector: {matchExpressions: [{key: app, operator: In, values: [set, db, one]}]}}"),
		create("services", "web", "spec: {publishNotReadyAddresses: true, selector: {app: set}, ports: [{port: 80}]}"),
	}
	d.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:2+d.IntN(4)]
}

// happening is what happens to a node, or to a pod. Kubernetes looks every five seconds for nodes to give up, and gives
// one up in ten seconds.
func (d *dice) happening() step {
	node, what := d.one("a", "a", "b", "c"), d.IntN(11)
	if what == 4 {
		return do(health(node, "Ready", d.one("False", "Unknown"))).settling(11 * time.Second)
	}
	return do(d.brief(node, what)).settling(3 * time.Second)
}

// brief is what shows its effects at once.
func (d *dice) brief(node string, what int) request {
	switch what {
	case 0:
		return taints(node, noSchedule)
	case 1:
		return taints(node, noExecute)
	case 2:
		return taints(node, "")
	case 3:
		return patch("nodes/{NS}-"+node, "spec: {unschedulable: "+d.one("true", "null")+"}")
	case 5:
		return health(node, "Ready", "True")
	case 6:
		return health(node, d.one("MemoryPressure", "DiskPressure", "PIDPressure"), d.one("True", "False"))
	case 7:
		return patch("nodes/{NS}-"+node, "metadata: {labels: {role: "+d.one("x", "null")+"}}")
	case 8:
		return running("{" + d.one("all", "set", "db", "one") + ":0}")
	case 9:
		return evict("{" + d.one("all", "set", "db", "one") + ":0}")
	}
	return remove("pods/{"+d.one("all", "set", "db", "one")+":0}", d.one("", "gracePeriodSeconds: 0"))
}
