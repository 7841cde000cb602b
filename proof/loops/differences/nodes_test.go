package differences_test

import (
	"fmt"
	"time"
)

// alone is a scenario that makes its own nodes.
func alone(name string, steps ...step) scenario {
	return scenario{name: name, steps: steps, alone: true}
}

// machine is a ready node of the scenario, with labels and further fields of its spec.
func machine(name, labels, more string) request {
	return sized(name, labels, more, "cpu: 2, memory: 4Gi, pods: 10, ephemeral-storage: 10Gi")
}

func sized(name, labels, more, capacity string) request {
	return createFull("nodes", fmt.Sprintf("metadata: {name: '{NS}-%s', labels: {kubernetes.io/hostname: '%s', of: '{NS}'%s}}\nspec: {%s}\nstatus: {capacity: {%s}, allocatable: {%s}, conditions: [{type: Ready, status: 'True', reason: KubeletReady, lastHeartbeatTime: %q, lastTransitionTime: %q}], nodeInfo: {operatingSystem: linux, architecture: amd64}}",
		name, name, also(labels), more, capacity, capacity, longAgo, longAgo))
}

const longAgo = "2000-01-01T00:00:00Z"

// health sets a condition of a node.
func health(name, kind, status string) request {
	return patchStatus("nodes/{NS}-"+name, fmt.Sprintf("{conditions: [{type: %s, status: '%s', reason: Mine, lastHeartbeatTime: %q, lastTransitionTime: %q}]}", kind, status, longAgo, longAgo))
}

func taints(name, list string) request {
	return patch("nodes/{NS}-"+name, "spec: {taints: ["+list+"]}")
}

// running is what a kubelet says of a pod.
func running(pod string) request {
	return patchStatus("pods/"+pod, "{phase: Running, conditions: [{type: Ready, status: 'True'}, {type: ContainersReady, status: 'True'}], containerStatuses: [{name: main, ready: true, image: x, imageID: x, state: {running: {}}}]}")
}

const (
	noSchedule = "{key: mine, value: 'yes', effect: NoSchedule}"
	noExecute  = "{key: mine, value: 'yes', effect: NoExecute}"
)

func nodeScenarios() []scenario {
	const web = "daemonsets/web"
	daemons := func(more, podSpec string) request {
		return create("daemonsets", "web", fmt.Sprintf("spec: {selector: {matchLabels: {app: web}}, template: %s%s}", template("web", "", podSpec), also(more)))
	}
	tolerant := func(name, tolerations string) request {
		return pod(name, "a: b", "", "tolerations: ["+tolerations+"], "+oneContainer)
	}
	slow := 8 * time.Second
	return []scenario{
		alone("node, daemon set on nodes that come and go", do(machine("a", "", "")), do(daemons("", "")), do(machine("b", "", "")), do(running("{web:0}"), running("{web:1}")), do(remove("nodes/{NS}-a", "")).settling(slow)),
		alone("node, daemon set and taints", do(machine("a", "", ""), machine("b", "", "taints: ["+noSchedule+"]")), do(daemons("", "")), do(taints("b", "")), do(taints("a", noSchedule)), do(taints("a", noExecute)).settling(4*time.Second)),
		alone("node, daemon set that tolerates", do(machine("a", "", "taints: ["+noExecute+"]")), do(daemons("", "tolerations: [{key: mine, operator: Exists}], "+oneContainer)), do(health("a", "Ready", "False")).settling(4*time.Second), do(machine("b", "", "unschedulable: true")).settling(30*time.Second)),
		alone("node, daemon set and labels", do(machine("a", "", ""), machine("b", "role: x", "")), do(daemons("", "nodeSelector: {role: x}, "+oneContainer)), do(patch("nodes/{NS}-a", "metadata: {labels: {role: x}}")), do(patch("nodes/{NS}-b", "metadata: {labels: {role: null}}"))),
		alone("node, daemon set without room", do(sized("a", "", "", "cpu: 1, memory: 1Gi, pods: 10")), do(daemons("", "containers: [{name: main, image: 'web:1', resources: {requests: {cpu: 2}}}]"))),
		alone("node, daemon set that fails", do(machine("a", "", "")), do(daemons("", "")), do(patchStatus("pods/{web:0}", "{phase: Failed, reason: Mine}")).settling(4*time.Second)),
		alone("node, daemon set updated without kubelets", do(machine("a", "", ""), machine("b", "", "")), do(daemons("updateStrategy: {rollingUpdate: {maxUnavailable: 1}}", "")), do(running("{web:0}"), running("{web:1}")), do(image(web, "web:2"))),
		alone("node, daemon set with a surge", do(machine("a", "", ""), machine("b", "", "")), do(daemons("updateStrategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}", "")), do(running("{web:0}"), running("{web:1}")), do(image(web, "web:2"))),
		alone("node, pods are evicted", do(machine("a", "", "")), do(tolerant("none", ""), tolerant("all", "{operator: Exists}"), tolerant("short", "{key: mine, operator: Exists, effect: NoExecute, tolerationSeconds: 4}"), tolerant("other", "{key: other, operator: Exists}")), do(taints("a", noExecute)).settling(3*time.Second), do().settling(slow)),
		alone("node, eviction is called off", do(machine("a", "", "")), do(tolerant("short", "{key: mine, operator: Exists, effect: NoExecute, tolerationSeconds: 6}")), do(taints("a", noExecute)), do(taints("a", "")).settling(slow)),
		alone("node, not ready", do(machine("a", "", "")), do(pod("one", "a: b", "", "")), do(health("a", "Ready", "False")).settling(4*time.Second), do(health("a", "Ready", "True")).settling(4*time.Second)),
		alone("node, unknown", do(machine("a", "", "")), do(pod("one", "a: b", "", "")), do(health("a", "Ready", "Unknown")).settling(4*time.Second), do(health("a", "Ready", "True")).settling(4*time.Second)),
		alone("node, not ready and a pod with little patience", do(machine("a", "", "")), do(tolerant("one", "{key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 3}")), do(health("a", "Ready", "False")).settling(slow)),
		alone("node, pressure", do(machine("a", "", "")), do(health("a", "MemoryPressure", "True")), do(health("a", "DiskPressure", "True"), health("a", "PIDPressure", "True"), health("a", "NetworkUnavailable", "True")), do(health("a", "MemoryPressure", "False"), health("a", "DiskPressure", "False"), health("a", "PIDPressure", "False"), health("a", "NetworkUnavailable", "False"))),
		alone("node, cordoned", do(machine("a", "", "")), do(patch("nodes/{NS}-a", "spec: {unschedulable: true}")), do(pod("one", "a: b", "", "")), do(patch("nodes/{NS}-a", "spec: {unschedulable: null}"))),
		alone("node, out of service", do(machine("a", "", "")), do(pod("one", "a: b", "", "")), do(health("a", "Ready", "False")), do(taints("a", "{key: node.kubernetes.io/out-of-service, value: nodeshutdown, effect: NoExecute}"), remove("pods/one", "")).settling(30*time.Second)),
		alone("node, deleted with its pods", do(machine("a", "", "")), do(pod("one", "a: b", "", "")), do(remove("nodes/{NS}-a", "")).settling(60*time.Second)),
		alone("node, labels for what it runs", do(createFull("nodes", "metadata: {name: '{NS}-a', labels: {beta.kubernetes.io/os: linux, kubernetes.io/arch: arm64}}")), do(patch("nodes/{NS}-a", "metadata: {labels: {kubernetes.io/arch: amd64}}"))),
		alone("node, without a condition", do(createFull("nodes", "metadata: {name: '{NS}-a'}")).settling(8*time.Second)),
	}
}
