package differences_test

import "fmt"

func schedulerScenarios() []scenario {
	asking := func(requests string) string {
		return "containers: [{name: main, image: 'web:1', resources: {requests: {" + requests + "}}}]"
	}
	zoned := do(machine("a", "zone: one, disk: fast, size: '3'", ""), machine("b", "zone: one", ""), machine("c", "zone: two, size: '10'", ""))
	nodeAffinity := func(expressions string) string {
		return "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [" + expressions + "]}}}, " + oneContainer
	}
	podAffinity := func(kind, key, app, more string) string {
		return "affinity: {" + kind + ": {requiredDuringSchedulingIgnoredDuringExecution: [{labelSelector: {matchLabels: {app: " + app + "}}, topologyKey: " + key + also(more) + "}]}}, " + oneContainer
	}
	spread := func(skew int, key, when, more string) string {
		return fmt.Sprintf("topologySpreadConstraints: [{maxSkew: %d, topologyKey: %s, whenUnsatisfiable: %s, labelSelector: {matchLabels: {app: web}}%s}], %s", skew, key, when, also(more), oneContainer)
	}
	prioritized := func(name string, value int, more string) request {
		return createFull("priorityclasses", fmt.Sprintf("metadata: {name: '{NS}-%s'}\nvalue: %d\n%s", name, value, more))
	}
	important := func(name, class, requests, more string) request {
		return pod(name, "app: "+name, "", "priorityClassName: '{NS}-"+class+"', "+asking(requests)+also(more))
	}
	on := func(name, node string) request {
		return pod(name, "app: web", "", "nodeSelector: {kubernetes.io/hostname: "+node+"}, "+oneContainer)
	}
	var out []scenario
	// Reasons why a pod fits nowhere, alone and together.
	for i, one := range []struct{ name, spec string }{
		{"cpu", asking("cpu: 3")}, {"memory", asking("memory: 5Gi")}, {"cpu and memory", asking("cpu: 3, memory: 5Gi")}, {"unknown resource", "containers: [{name: main, image: x, resources: {limits: {example.com/gpu: 1}}}]"},
		{"ephemeral storage", asking("ephemeral-storage: 20Gi")}, {"selector", "nodeSelector: {none: none}, " + oneContainer}, {"affinity", nodeAffinity("{matchExpressions: [{key: zone, operator: In, values: [three]}]}")},
		{"greater", nodeAffinity("{matchExpressions: [{key: size, operator: Gt, values: ['20']}]}")}, {"field", nodeAffinity("{matchFields: [{key: metadata.name, operator: In, values: [nobody]}]}")},
		{"selector and cpu", "nodeSelector: {zone: one}, " + asking("cpu: 3")}, {"pod affinity", podAffinity("podAffinity", "zone", "nobody", "")}, {"pod affinity to a key that nobody has", podAffinity("podAffinity", "none", "web", "")},
		{"spread over a key that nobody has", spread(1, "none", "DoNotSchedule", "")}, {"gate", "schedulingGates: [{name: example.com/wait}], " + oneContainer}, {"two gates", "schedulingGates: [{name: example.com/wait}, {name: example.com/more}], " + oneContainer},
		{"other scheduler", "schedulerName: other, " + oneContainer}, {"overhead of many containers", "initContainers: [{name: i, image: x, resources: {requests: {cpu: 3}}}], " + oneContainer},
		{"claim", mounting("data")}, {"never preempts", "preemptionPolicy: Never, " + asking("cpu: 3")},
		{"config map of devices", "resourceClaims: [{name: a, resourceClaimName: none}], " + oneContainer},
	} {
		out = append(out, alone("scheduler, nowhere for "+one.name, zoned, do(pod("one", "app: one", "", one.spec)), do(remove("pods/one", "gracePeriodSeconds: 0"), taints("a", noSchedule), patch("nodes/{NS}-b", "spec: {unschedulable: true}")), do(pod("one", "app: one", "", one.spec))))
		if i < 3 {
			out = append(out, alone("scheduler, room comes for "+one.name, zoned, do(pod("one", "app: one", "", one.spec)), do(sized("big", "", "", "cpu: 8, memory: 16Gi, pods: 10, ephemeral-storage: 100Gi")).settling(12e9)))
		}
	}
	for _, when := range []string{"DoNotSchedule", "ScheduleAnyway"} {
		out = append(out, alone("scheduler, spread "+when, zoned, do(on("x", "a"), on("y", "b")), do(pod("one", "app: web", "", spread(1, "zone", when, "")+", nodeSelector: {zone: one}"))),
			alone("scheduler, spread evenly "+when, zoned, do(on("x", "a")), do(pod("one", "app: web", "", spread(1, "zone", when, "minDomains: 2"))), do(pod("two", "app: web", "", spread(1, "kubernetes.io/hostname", when, "")))))
	}
	return append(out,
		alone("scheduler, no nodes", do(pod("one", "app: one", "", "")), do(machine("a", "", "")).settling(12e9)),
		alone("scheduler, all tainted", do(machine("a", "", "taints: ["+noSchedule+"]"), machine("b", "", "taints: ["+noExecute+"]"), machine("c", "", "unschedulable: true")), do(pod("one", "app: one", "", "")), do(pod("two", "app: one", "", "tolerations: [{key: mine, operator: Equal, value: 'yes', effect: NoSchedule}], "+oneContainer))),
		alone("scheduler, prefers", do(machine("a", "", "taints: [{key: mine, value: x, effect: PreferNoSchedule}]"), machine("b", "", "")), do(pod("one", "app: one", "", ""))),
		alone("scheduler, prefers by affinity", zoned, do(pod("one", "app: one", "", "affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 100, preference: {matchExpressions: [{key: disk, operator: Exists}]}}]}}, "+oneContainer))),
		alone("scheduler, by node name", zoned, do(pod("one", "app: one", "", "nodeName: '{NS}-a', "+asking("cpu: 5")))),
		alone("scheduler, host ports", do(machine("a", "", "")), do(pod("one", "app: one", "", "containers: [{name: main, image: x, ports: [{containerPort: 80, hostPort: 80}]}]")), do(pod("two", "app: one", "", "containers: [{name: main, image: x, ports: [{containerPort: 80, hostPort: 80}]}]")), do(pod("three", "app: one", "", "containers: [{name: main, image: x, ports: [{containerPort: 80, hostPort: 80, protocol: UDP}]}]")), do(remove("pods/one", "gracePeriodSeconds: 0"))),
		alone("scheduler, too many pods", do(sized("a", "", "", "cpu: 2, memory: 4Gi, pods: 1")), do(pod("one", "app: one", "", "")), do(pod("two", "app: one", "", "")), do(remove("pods/one", "gracePeriodSeconds: 0"))),
		alone("scheduler, affinity to itself", zoned, do(pod("one", "app: web", "", podAffinity("podAffinity", "zone", "web", "")+", nodeSelector: {kubernetes.io/hostname: a}")), do(pod("two", "app: web", "", podAffinity("podAffinity", "kubernetes.io/hostname", "web", "")))),
		alone("scheduler, away from itself", zoned, do(pod("one", "app: web", "", podAffinity("podAntiAffinity", "zone", "web", "")+", nodeSelector: {kubernetes.io/hostname: a}")), do(pod("two", "app: web", "", podAffinity("podAntiAffinity", "zone", "web", ""))), do(pod("three", "app: web", "", podAffinity("podAntiAffinity", "zone", "web", ""))), do(pod("four", "app: web", "", ""))),
		alone("scheduler, affinity in other namespaces", zoned, do(on("x", "a")), do(pod("one", "app: one", "", podAffinity("podAffinity", "kubernetes.io/hostname", "web", "namespaces: [nowhere]"))), do(pod("two", "app: two", "", podAffinity("podAffinity", "kubernetes.io/hostname", "web", "namespaceSelector: {}")))),
		alone("scheduler, gates are lifted", zoned, do(pod("one", "app: one", "", "schedulingGates: [{name: example.com/wait}, {name: example.com/more}], nodeSelector: {kubernetes.io/hostname: a}, "+oneContainer)), do(patch("pods/one", "spec: {schedulingGates: [{name: example.com/more}]}")), do(patch("pods/one", "spec: {schedulingGates: []}"))),
		alone("scheduler, preemption", do(prioritized("high", 100, ""), prioritized("low", 1, ""), machine("a", "", "")), do(important("weak", "low", "cpu: 2", "")), do(important("strong", "high", "cpu: 2", "")), do(remove("pods/weak", "gracePeriodSeconds: 0"))),
		alone("scheduler, preemption of the least important", do(prioritized("high", 100, ""), prioritized("mid", 50, ""), prioritized("low", 1, ""), machine("a", "", ""), machine("b", "", "")), do(important("weak", "low", "cpu: 2", "nodeSelector: {kubernetes.io/hostname: a}")), do(important("middle", "mid", "cpu: 2", "")), do(important("strong", "high", "cpu: 2", ""))),
		alone("scheduler, preemption that does not help", do(prioritized("high", 100, ""), prioritized("low", 1, ""), machine("a", "", "")), do(important("weak", "low", "cpu: 1", "")), do(important("strong", "high", "cpu: 3", ""))),
		alone("scheduler, preemption of equals", do(prioritized("low", 1, ""), machine("a", "", "")), do(important("first", "low", "cpu: 2", "")), do(important("second", "low", "cpu: 2", ""))),
		alone("scheduler, no preemption by policy", do(prioritized("high", 100, "preemptionPolicy: Never"), prioritized("low", 1, ""), machine("a", "", "")), do(important("weak", "low", "cpu: 2", "")), do(important("strong", "high", "cpu: 2", ""))),
		alone("scheduler, preemption and a budget", do(prioritized("high", 100, ""), prioritized("low", 1, ""), machine("a", "", ""), machine("b", "", "")), do(important("guarded", "low", "cpu: 2", "nodeSelector: {kubernetes.io/hostname: a}"), create("poddisruptionbudgets", "guard", "spec: {minAvailable: 1, selector: {matchLabels: {app: guarded}}}")), do(important("free", "low", "cpu: 2", "nodeSelector: {kubernetes.io/hostname: b}")), do(important("strong", "high", "cpu: 2", ""))),
		alone("scheduler, preemption for affinity", do(prioritized("high", 100, ""), prioritized("low", 1, ""), machine("a", "", "")), do(important("web", "low", "cpu: 100m", "")), do(pod("strong", "app: strong", "", "priorityClassName: '{NS}-high', "+podAffinity("podAntiAffinity", "kubernetes.io/hostname", "web", "")))),
		alone("scheduler, preemption for a port", do(prioritized("high", 100, ""), prioritized("low", 1, ""), machine("a", "", "")), do(pod("weak", "app: x", "", "priorityClassName: '{NS}-low', containers: [{name: main, image: x, ports: [{containerPort: 80, hostPort: 80}]}]")), do(pod("strong", "app: x", "", "priorityClassName: '{NS}-high', containers: [{name: main, image: x, ports: [{containerPort: 80, hostPort: 80}]}]"))),
		alone("scheduler, nominated and then room elsewhere", do(prioritized("high", 100, ""), prioritized("low", 1, ""), machine("a", "", "")), do(important("weak", "low", "cpu: 2", "")), do(patch("pods/weak", "metadata: {finalizers: [example.com/keep]}"), important("strong", "high", "cpu: 2", "")), do(machine("b", "", ""))),
		alone("scheduler, nominated and deleted", do(prioritized("high", 100, ""), prioritized("low", 1, ""), machine("a", "", "")), do(important("weak", "low", "cpu: 2", "")), do(important("strong", "high", "cpu: 2", "")), do(remove("pods/strong", "gracePeriodSeconds: 0"), important("small", "low", "cpu: 100m", ""))),
		alone("scheduler, volume elsewhere", zoned, do(createFull("persistentvolumes", "metadata: {name: '{NS}-v'}\nspec: {capacity: {storage: 1Gi}, storageClassName: '{NS}-l', accessModes: [ReadWriteOnce], local: {path: /x}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [two]}]}]}}}")), do(claim("data", "1Gi", "{NS}-l", "")), do(pod("one", "a: b", "", mounting("data"))), do(pod("two", "a: b", "", mounting("data")+", nodeSelector: {zone: one}"))),
		alone("scheduler, claim unbound", zoned, do(claim("data", "1Gi", "", "")), do(pod("one", "a: b", "", mounting("data"))), do(volume("v", "1Gi", "", "")).settling(28e9)),
		alone("scheduler, claim being deleted", zoned, do(claim("data", "1Gi", "", ""), patch("persistentvolumeclaims/data", "metadata: {finalizers: [example.com/keep]}"), remove("persistentvolumeclaims/data", "")), do(pod("one", "a: b", "", mounting("data")))),
		alone("scheduler, claim that waits", zoned, do(class("l", "kubernetes.io/no-provisioner", "volumeBindingMode: WaitForFirstConsumer")), do(claim("data", "1Gi", "{NS}-l", "")), do(pod("one", "a: b", "", mounting("data"))), do(createFull("persistentvolumes", "metadata: {name: '{NS}-v'}\nspec: {capacity: {storage: 1Gi}, storageClassName: '{NS}-l', accessModes: [ReadWriteOnce], local: {path: /x}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [two]}]}]}}}")).settling(28e9)),
		alone("scheduler, claim for one pod", zoned, do(createFull("persistentvolumes", "metadata: {name: '{NS}-v'}\nspec: {capacity: {storage: 1Gi}, storageClassName: '', accessModes: [ReadWriteOncePod], hostPath: {path: /x}}")), do(createFull("persistentvolumeclaims", "metadata: {name: data}\nspec: {resources: {requests: {storage: 1Gi}}, storageClassName: '', accessModes: [ReadWriteOncePod]}")), do(pod("one", "a: b", "", mounting("data"))), do(pod("two", "a: b", "", mounting("data"))), do(remove("pods/one", "gracePeriodSeconds: 0"))),
		alone("scheduler, spread and full domains", zoned, do(on("x", "a"), on("y", "b"), on("z", "b")), do(pod("one", "app: web", "", spread(1, "kubernetes.io/hostname", "DoNotSchedule", "")+", nodeSelector: {kubernetes.io/hostname: b}")), do(pod("two", "app: web", "", spread(1, "kubernetes.io/hostname", "DoNotSchedule", "nodeTaintsPolicy: Honor, nodeAffinityPolicy: Ignore")+", nodeSelector: {kubernetes.io/hostname: b}"))),
		alone("scheduler, existing pods keep away", zoned, do(pod("x", "app: x", "", podAffinity("podAntiAffinity", "zone", "web", "")+", nodeSelector: {zone: two}")), do(pod("one", "app: web", "", "nodeSelector: {zone: two}, "+oneContainer))),
		alone("scheduler, many reasons", do(machine("a", "", "taints: ["+noSchedule+"]"), machine("b", "", "unschedulable: true"), machine("c", "zone: one", ""), sized("d", "zone: two", "", "cpu: 100m, memory: 4Gi, pods: 10"), sized("e", "zone: two", "", "cpu: 2, memory: 4Gi, pods: 0")), do(pod("one", "app: one", "", "nodeSelector: {zone: two}, "+asking("cpu: 1"))), do(prioritized("high", 9, ""), important("two", "high", "cpu: 1", "nodeSelector: {zone: two}"))),
		alone("scheduler, resized in place", do(machine("a", "", "")), do(pod("one", "app: one", "", asking("cpu: 1")), pod("two", "app: two", "", asking("cpu: 2"))), do(remove("pods/one", "gracePeriodSeconds: 0"))),
		alone("scheduler, resource of the node grows", do(machine("a", "", "")), do(pod("one", "app: one", "", asking("cpu: 3"))), do(patchStatus("nodes/{NS}-a", "{allocatable: {cpu: 4}, capacity: {cpu: 4}}"))),
		alone("scheduler, label of the node comes", zoned, do(pod("one", "app: one", "", "nodeSelector: {later: x}, "+oneContainer)), do(patch("nodes/{NS}-a", "metadata: {labels: {later: x}}"))),
	)
}
