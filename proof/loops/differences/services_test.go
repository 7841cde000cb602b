package differences_test

import (
	"fmt"
	"time"
)

func serviceScenarios() []scenario {
	const web = "services/web"
	service := func(more string) request {
		return createFull("services", "metadata: {name: web, labels: {of: web}}\nspec: {"+more+"}")
	}
	const one = "selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080}]"
	pods := func(n int, annotations, podSpec string) request {
		return create("replicasets", "web", workload("web", n, "", template("web", annotations, podSpec)))
	}
	const ports = "containers: [{name: main, image: 'web:1', ports: [{name: http, containerPort: 8080}, {name: dns, containerPort: 53, protocol: UDP}]}]"
	manual := func(text string) request {
		return createFull("endpoints", "metadata: {name: web, labels: {a: b}}\n"+text)
	}
	out := []scenario{
		story("service, pods come and go", do(service(one)), do(pods(2, "", "")), do(spec("replicasets/web", "replicas: 4")), do(spec("replicasets/web", "replicas: 0")), do(remove(web, ""))),
		story("service, named port", do(service("selector: {app: web}, ports: [{name: http, port: 80, targetPort: http}, {name: dns, port: 53, protocol: UDP, targetPort: dns}]")), do(pods(2, "", ports)),
			do(pod("other", "app: web", "", "containers: [{name: main, image: 'web:1', ports: [{name: http, containerPort: 9090}]}]")), do(pod("bare", "app: web", "", "")), do(remove(web, ""))),
		story("service, named port that nobody has", do(service("selector: {app: web}, ports: [{name: http, port: 80, targetPort: nothing}]"), pods(1, "", ports))),
		story("service, without a port", do(service("selector: {app: web}, clusterIP: None"), pods(1, "", ports))),
		story("service, headless", do(service("clusterIP: None, "+one), pods(2, "", "")), do(patch(web, "metadata: {labels: {more: yes}}")), do(spec(web, "ports: [{name: other, port: 81}]"))),
		story("service, headless without a selector", do(service("clusterIP: None, ports: [{port: 80}]"), pods(1, "", ""))),
		story("service, host names", do(service("clusterIP: None, "+one), pod("a", "app: web", "", "hostname: alpha, subdomain: web, "+oneContainer), pod("b", "app: web", "", "hostname: beta, subdomain: other, "+oneContainer), pod("c", "app: web", "", "subdomain: web, "+oneContainer))),
		story("service, unready pods", do(service(one), pods(2, "ready-after=1h", probed)), do(patch(web, "spec: {publishNotReadyAddresses: true}")), do(patch(web, "spec: {publishNotReadyAddresses: false}"))),
		story("service, terminating pods", do(service(one), pods(2, "stop-delay=8s", "")), do(spec("replicasets/web", "replicas: 1")).settling(time.Second), do().settling(8*time.Second)),
		story("service, terminating pods that are published", do(service("publishNotReadyAddresses: true, "+one), pods(2, "stop-delay=8s", "")), do(spec("replicasets/web", "replicas: 1")).settling(time.Second), do().settling(8*time.Second)),
		story("service, pods that end", do(service(one), pod("end", "app: web", "run-for=4s", never)).settling(time.Second), do().settling(6*time.Second)),
		story("service, pods that cannot be placed", do(service(one), pods(1, "", "nodeSelector: {none: none}, "+oneContainer))),
		story("service, external name", do(service("type: ExternalName, externalName: example.com"), pods(1, "", "")), do(spec(web, "type: ClusterIP, externalName: null, selector: {app: web}, ports: [{port: 80}]")), do(spec(web, "type: ExternalName, externalName: example.com, clusterIP: null, clusterIPs: null, ports: null"))),
		story("service, selector changed", do(service(one), pods(2, "", "")), do(spec(web, "selector: {app: other}")), do(pod("other", "app: other", "", "")), do(spec(web, "selector: null"))),
		story("service, node ports and affinity", do(service("type: NodePort, sessionAffinity: ClientIP, externalTrafficPolicy: Local, "+one), pods(1, "", ""))),
		story("service, load balancer", do(service("type: LoadBalancer, "+one), pods(1, "", "")), do(spec(web, "type: ClusterIP")), do(remove(web, ""))),
		story("service, traffic distribution", do(service("trafficDistribution: PreferClose, "+one), pods(2, "", "")), do(spec(web, "trafficDistribution: PreferSameNode")), do(spec(web, "trafficDistribution: null")), do(patch(web, "metadata: {annotations: {service.kubernetes.io/topology-mode: Auto}}"))),
		story("service, slice deleted", do(service(one), pods(1, "", "")), do(remove("endpointslices/{web:0}", "")), do(patch("endpointslices/{web:0}", "{endpoints: [], metadata: {labels: {x: y}}}")), do(remove("endpoints/web", ""))),
		story("service, endpoints changed by hand", do(service(one), pods(1, "", "")), do(patch("endpoints/web", "{subsets: [{addresses: [{ip: 1.2.3.4}], ports: [{port: 1}]}]}"))),
		story("service, labels", do(createFull("services", "metadata: {name: web, labels: {kubernetes.io/x: y, service.kubernetes.io/headless: z, app.kubernetes.io/name: web}, annotations: {kubectl.kubernetes.io/a: b, own: c}}\nspec: {"+one+"}"), pods(1, "", "")), do(patch(web, "metadata: {labels: {service.kubernetes.io/headless: null, more: yes}, annotations: {own: d}}"))),
		story("service, two of the same pods", do(service(one), createFull("services", "metadata: {name: web2}\nspec: {selector: {app: web}, ports: [{port: 81, appProtocol: http}]}"), pods(2, "", ""))),
		story("service, many ports", do(service("selector: {app: web}, ports: [{name: a, port: 80}, {name: b, port: 81, targetPort: http}, {name: c, port: 80, protocol: UDP}, {name: d, port: 80, protocol: SCTP}]"), pods(2, "", ports), pod("bare", "app: web", "", ""))),
		story("service, without a selector", do(service("ports: [{port: 80}]")), do(manual("subsets: [{addresses: [{ip: 1.2.3.4, hostname: a}], notReadyAddresses: [{ip: 1.2.3.5}], ports: [{name: x, port: 1}]}]")), do(patch("endpoints/web", "metadata: {labels: {endpointslice.kubernetes.io/skip-mirror: 'true'}}")), do(patch("endpoints/web", "metadata: {labels: {endpointslice.kubernetes.io/skip-mirror: null}}")), do(remove("endpoints/web", ""))),
		story("service, endpoints of two families", do(service("ports: [{port: 80}]"), manual("subsets: [{addresses: [{ip: 1.2.3.4}, {ip: 'fd00::1'}, {ip: 1.2.3.4}], ports: [{name: a, port: 1}, {name: b, port: 2, protocol: UDP}]}, {addresses: [{ip: 1.2.3.4}, {ip: 1.2.3.9}], ports: [{name: a, port: 1}]}]")), do(patch("endpoints/web", "metadata: {labels: {a: c}, annotations: {x: y}}")), do(remove(web, ""))),
		story("service, endpoints without a service", do(manual("subsets: [{addresses: [{ip: 1.2.3.4}], ports: [{port: 1}]}]")), do(service("ports: [{port: 80}]")), do(spec(web, "selector: {app: web}")), do(spec(web, "selector: null"))),
		story("service, endpoints without addresses", do(service("ports: [{port: 80}]"), manual("subsets: []")), do(patch("endpoints/web", "{subsets: [{addresses: [{ip: 1.2.3.4}], ports: [{port: 1}]}]}")), do(patch("endpoints/web", "{subsets: null}"))),
		story("service, of a leader's endpoints", do(service("ports: [{port: 80}]"), createFull("endpoints", "metadata: {name: web, annotations: {control-plane.alpha.kubernetes.io/leader: x}}\nsubsets: [{addresses: [{ip: 1.2.3.4}], ports: [{port: 1}]}]"))),
		story("service, slices by hand", do(service("ports: [{port: 80}]"), createFull("endpointslices", "metadata: {name: web-own, labels: {kubernetes.io/service-name: web}}\naddressType: IPv4\nports: [{port: 1}]\nendpoints: [{addresses: [1.2.3.4]}]")), do(remove(web, ""))),
		story("service, two families", do(service("ipFamilyPolicy: PreferDualStack, "+one), pods(1, "", "")), do(spec(web, "ipFamilyPolicy: SingleStack"))),
		story("service, pods of the machine's network", do(service(one), pod("host", "app: web", "", "hostNetwork: true, "+oneContainer))),
	}
	for _, labels := range []string{"a: b", "app: web, endpointslice.kubernetes.io/skip-mirror: 'true'"} {
		out = append(out, story("service, mirrored with labels "+labels, do(service("ports: [{port: 80}]"), createFull("endpoints", "metadata: {name: web, labels: {"+labels+"}}\nsubsets: [{addresses: [{ip: 1.2.3.4, nodeName: hollow-0, targetRef: {kind: Pod, name: x, namespace: '{NS}'}}], ports: [{port: 1}]}]"))))
	}
	return out
}

func budgetScenarios() []scenario {
	make := func(fields string) request { return create("poddisruptionbudgets", "web", "spec: {"+fields+"}") }
	const mine = ", selector: {matchLabels: {app: web}}"
	pods := create("replicasets", "web", workload("web", 3, "", template("web", "", "")))
	unready := create("replicasets", "web", workload("web", 3, "", template("web", "ready-after=1h", probed)))
	plain := []request{pod("a", "app: web", "", ""), pod("b", "app: web", "", "")}
	var out []scenario
	for _, limit := range []string{"minAvailable: 2", "minAvailable: 50%", "maxUnavailable: 1", "maxUnavailable: 0", "maxUnavailable: 34%", "minAvailable: 3", "minAvailable: 100%", "minAvailable: 0"} {
		out = append(out, story("budget, "+limit, do(pods), do(make(limit+mine)), do(evict("{web:0}")), do(evict("{web:0}")), do(spec("replicasets/web", "replicas: 5")), do(evict("{web:0}"))),
			story("budget of pods without a controller, "+limit, do(plain...), do(make(limit+mine)), do(evict("a")), do(evict("b"))))
	}
	for _, policy := range []string{"IfHealthyBudget", "AlwaysAllow"} {
		out = append(out, story("budget, unready pods "+policy, do(unready), do(make("minAvailable: 2, unhealthyPodEvictionPolicy: "+policy+mine)), do(evict("{web:0}")), do(evict("{web:1}"))))
	}
	return append(out,
		story("budget, no pods", do(make("minAvailable: 1"+mine)), do(pods), do(remove("replicasets/web", background))),
		story("budget, no selector", do(pods), do(make("minAvailable: 1")), do(evict("{web:0}"))),
		story("budget, selector of everything", do(pods), do(make("minAvailable: 2, selector: {}")), do(evict("{web:0}"))),
		story("budget, two of them", do(pods), do(make("minAvailable: 1"+mine), create("poddisruptionbudgets", "web2", "spec: {minAvailable: 1"+mine+"}")), do(evict("{web:0}"))),
		story("budget, of a deployment", do(create("deployments", "web", workload("web", 4, "", template("web", "", "")))), do(make("maxUnavailable: 25%"+mine)), do(evict("{web:0}")), do(spec("deployments/web", "replicas: 8"))),
		story("budget, of a stateful set", do(create("statefulsets", "web", workload("web", 2, "serviceName: web", template("web", "", "")))).settling(4*time.Second), do(make("maxUnavailable: 1"+mine)), do(evict("web-0")), do(remove("statefulsets/web", background))),
		story("budget, of a job", do(createFull("jobs", "metadata: {name: one}\nspec: {parallelism: 2, template: "+template("web", "run-for=1h", never)+"}")), do(make("maxUnavailable: 1"+mine)), do(evict("{one:0}"))),
		story("budget, of a daemon set", do(create("daemonsets", "web", fmt.Sprintf("spec: {selector: {matchLabels: {app: web}}, template: %s}", template("web", "", "nodeSelector: {kubernetes.io/hostname: hollow-4}, "+oneContainer)))), do(make("maxUnavailable: 1"+mine)), do(evict("{web:0}"))),
		story("budget, pods with several owners", do(pods, create("replicasets", "more", workload("more", 2, "", template("more", "", "")))), do(make("minAvailable: 2, selector: {matchExpressions: [{key: app, operator: In, values: [web, more]}]}")), do(evict("{web:0}"), evict("{more:0}"))),
		story("budget, changed", do(pods), do(make("minAvailable: 3"+mine)), do(spec("poddisruptionbudgets/web", "minAvailable: 1")), do(spec("poddisruptionbudgets/web", "minAvailable: null, maxUnavailable: 0")), do(evict("{web:0}"))),
		story("budget, eviction of a pod that has ended", do(pod("end", "app: web", "run-for=0s", never), make("minAvailable: 1"+mine)).settling(4*time.Second), do(evict("end"))),
	)
}

func autoscaleScenarios() []scenario {
	busy := func(replicas int, annotations, container string) request {
		return create("deployments", "web", workload("web", replicas, "", template("web", annotations, "containers: [{name: main, image: 'web:1'"+also(container)+"}]")))
	}
	const asks = "resources: {requests: {cpu: 100m, memory: 64Mi}}"
	make := func(least, most int, metrics string) request {
		return create("horizontalpodautoscalers", "web", fmt.Sprintf("spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, minReplicas: %d, maxReplicas: %d%s}", least, most, also(metrics)))
	}
	const half = "metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]"
	long := 20 * time.Second
	target := func(text string) request {
		return create("horizontalpodautoscalers", "web", "spec: {scaleTargetRef: {"+text+"}, maxReplicas: 3, "+half+"}")
	}
	return []scenario{
		story("autoscaler, idle", do(busy(2, "cpu=50m", asks), make(1, 4, half)).settling(long)),
		story("autoscaler, busy", do(busy(1, "cpu=200m", asks), make(1, 4, half)).settling(2*long)),
		story("autoscaler, shared load", do(busy(1, "shared-cpu=150m", asks), make(1, 5, half)).settling(2*long)),
		story("autoscaler, without requests", do(busy(1, "cpu=200m", ""), make(1, 4, half)).settling(long)),
		story("autoscaler, average value", do(busy(1, "memory=128Mi", asks), make(1, 4, "metrics: [{type: Resource, resource: {name: memory, target: {type: AverageValue, averageValue: 64Mi}}}]")).settling(2*long)),
		story("autoscaler, container", do(busy(1, "cpu=200m", asks), make(1, 3, "metrics: [{type: ContainerResource, containerResource: {name: cpu, container: main, target: {type: Utilization, averageUtilization: 50}}}]")).settling(2*long)),
		story("autoscaler, container that nobody has", do(busy(1, "cpu=200m", asks), make(1, 3, "metrics: [{type: ContainerResource, containerResource: {name: cpu, container: other, target: {type: Utilization, averageUtilization: 50}}}]")).settling(long)),
		story("autoscaler, custom metrics", do(busy(1, "", asks), make(1, 3, "metrics: [{type: Pods, pods: {metric: {name: hits}, target: {type: AverageValue, averageValue: 5}}}]")).settling(long)),
		story("autoscaler, metric of an object", do(busy(1, "", asks), make(1, 3, "metrics: [{type: Object, object: {describedObject: {apiVersion: v1, kind: Service, name: web}, metric: {name: hits}, target: {type: Value, value: 5}}}]")).settling(long)),
		story("autoscaler, external metric", do(busy(1, "", asks), make(1, 3, "metrics: [{type: External, external: {metric: {name: hits}, target: {type: Value, value: 5}}}]")).settling(long)),
		story("autoscaler, one of two metrics", do(busy(1, "cpu=200m", asks), make(1, 3, "metrics: [{type: Pods, pods: {metric: {name: hits}, target: {type: AverageValue, averageValue: 5}}}, {type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]")).settling(2*long)),
		story("autoscaler, too few", do(busy(1, "cpu=50m", asks), make(3, 5, half)).settling(long)),
		story("autoscaler, too many", do(busy(6, "cpu=50m", asks), make(1, 4, half)).settling(long)),
		story("autoscaler, off", do(busy(0, "cpu=50m", asks), make(1, 4, half)).settling(long)),
		story("autoscaler, nothing to scale", do(make(1, 4, half)).settling(long), do(busy(1, "cpu=50m", asks)).settling(long)),
		story("autoscaler, unknown kind", do(target("apiVersion: example.com/v1, kind: Web, name: web")).settling(long)),
		story("autoscaler, kind without a scale", do(target("apiVersion: v1, kind: ConfigMap, name: web")).settling(long)),
		story("autoscaler, two of them", do(busy(1, "cpu=50m", asks), make(1, 4, half), create("horizontalpodautoscalers", "web2", "spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, maxReplicas: 4, "+half+"}")).settling(long)),
		story("autoscaler, rules for growing", do(busy(1, "cpu=500m", asks), make(1, 9, half+", behavior: {scaleUp: {policies: [{type: Pods, value: 2, periodSeconds: 600}]}}")).settling(2*long)),
		story("autoscaler, never grows", do(busy(1, "cpu=500m", asks), make(1, 9, half+", behavior: {scaleUp: {selectPolicy: Disabled}}")).settling(long)),
		story("autoscaler, shrinks at once", do(busy(4, "cpu=10m", asks), make(1, 9, half+", behavior: {scaleDown: {stabilizationWindowSeconds: 0}}")).settling(2*long)),
		story("autoscaler, shrinks late", do(busy(4, "cpu=10m", asks), make(1, 9, half)).settling(long)),
		story("autoscaler, tolerance", do(busy(2, "cpu=54m", asks), make(1, 9, half)).settling(long)),
	}
}
