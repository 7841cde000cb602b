package differences_test

import (
	"fmt"
	"time"
)

func deploymentScenarios() []scenario {
	const web = "deployments/web"
	make := func(replicas int, more, annotations, podSpec string) request {
		return create("deployments", "web", workload("web", replicas, more, template("web", annotations, podSpec)))
	}
	var out []scenario
	for i, bounds := range [][2]string{{"25%", "25%"}, {"1", "0"}, {"0", "1"}, {"100%", "0"}, {"0", "50%"}, {"3", "2"}} {
		rolling := fmt.Sprintf("strategy: {rollingUpdate: {maxSurge: %s, maxUnavailable: %s}}", bounds[0], bounds[1])
		out = append(out, story("deployment, rolling by "+bounds[0]+" and "+bounds[1],
			do(make(1+2*(i%3), rolling, "", "")), do(image(web, "web:2")), do(spec(web, "replicas: 4")), do(image(web, "web:1")), do(spec(web, "replicas: 0"))))
		out = append(out, story("deployment, stuck with "+bounds[0]+" and "+bounds[1],
			do(make(5, rolling, "", probed)), do(strategic(web, "spec: {template: {metadata: {annotations: {hollow.millrace.dev/ready-after: 1h}}}}")),
			do(spec(web, "replicas: 8")), do(spec(web, "replicas: 3")), do(spec(web, "paused: true")), do(spec(web, "replicas: 6")),
			do(strategic(web, "spec: {paused: false, template: {metadata: {annotations: {hollow.millrace.dev/ready-after: 0s}}}}"))))
	}
	return append(out,
		story("deployment, paused", do(make(2, "", "", "")), do(spec(web, "paused: true")), do(image(web, "web:2")), do(spec(web, "replicas: 3")), do(spec(web, "paused: null"))),
		story("deployment, paused from the start", do(make(2, "paused: true", "", "")), do(spec(web, "paused: false"))),
		story("deployment, without progress", do(make(2, "progressDeadlineSeconds: 3, minReadySeconds: 1", "ready-after=1h", probed)).settling(8*time.Second),
			do(image(web, "web:2")).settling(8*time.Second), do(strategic(web, "spec: {template: {metadata: {annotations: {hollow.millrace.dev/ready-after: 0s}}}}")).settling(5*time.Second)),
		story("deployment, without a deadline", do(make(1, "progressDeadlineSeconds: 2147483647", "", "")), do(image(web, "web:2"))),
		story("deployment, recreated", do(make(3, "strategy: {type: Recreate}", "", "")), do(image(web, "web:2")), do(spec(web, "replicas: 1")), do(image(web, "web:1"))),
		story("deployment, recreated slowly", do(make(2, "strategy: {type: Recreate}", "stop-delay=4s", "")), do(image(web, "web:2")).settling(8*time.Second)),
		story("deployment, recreated with a pod that fails to start", do(make(2, "strategy: {type: Recreate}", "", "")), do(image(web, "web::2")), do(image(web, "web:3"))),
		story("deployment, strategy changed", do(make(2, "", "", "")), do(patch(web, "spec: {strategy: {type: Recreate, rollingUpdate: null}}")), do(image(web, "web:2"))),
		story("deployment, orphaned and adopted", do(make(2, "", "", "")), do(remove(web, orphan)), do(make(3, "", "", "")), do(image(web, "web:2")), do(remove(web, foreground))),
		story("deployment, orphaned and adopted by another template", do(make(2, "", "", "")), do(remove(web, orphan)), do(make(2, "", "", probed)), do(remove(web, background))),
		story("deployment, whose name for the set is taken", do(make(2, "", "", "")), do(remove(web, orphan)),
			do(strategic("replicasets/{web:0}", "spec: {template: {spec: {containers: [{name: main, image: 'web:9'}]}}}")), do(make(2, "", "", ""))),
		story("deployment, history of one", do(make(1, "revisionHistoryLimit: 1", "", "")), do(image(web, "web:2")), do(image(web, "web:3")), do(image(web, "web:4")), do(image(web, "web:3"))),
		story("deployment, history of none", do(make(1, "revisionHistoryLimit: 0", "", "")), do(image(web, "web:2")), do(image(web, "web:1"))),
		story("deployment, with a cause", do(make(1, "", "", "")), do(strategic(web, "{metadata: {annotations: {kubernetes.io/change-cause: first, other: one}}, spec: {template: {spec: {containers: [{name: main, image: 'web:2'}]}}}}")),
			do(patch(web, "metadata: {annotations: {kubernetes.io/change-cause: second, other: null}}")), do(image(web, "web:1"))),
		story("deployment, rolled back", do(make(1, "", "", "")), do(image(web, "web:2")), do(patch(web, "metadata: {annotations: {deprecated.deployment.rollback.to: '1'}}")),
			do(patch(web, "metadata: {annotations: {deprecated.deployment.rollback.to: '9'}}")), do(patch(web, "metadata: {annotations: {deprecated.deployment.rollback.to: '0'}}"))),
		story("deployment, labels changed", do(make(2, "", "", "")), do(patch(web, "spec: {template: {metadata: {labels: {more: one}}}}")), do(patch(web, "metadata: {labels: {own: one}}"))),
		story("deployment, slow to be available", do(make(2, "minReadySeconds: 3", "", "")).settling(6*time.Second), do(spec(web, "minReadySeconds: 1")), do(image(web, "web:2")).settling(6*time.Second)),
		story("deployment, with too little quota", do(create("resourcequotas", "few", "spec: {hard: {pods: 2}}")), do(make(3, "", "", "")), do(spec(web, "replicas: 2"))),
		story("deployment, forbidden by quota", do(create("resourcequotas", "none", "spec: {hard: {count/replicasets.apps: 0}}")), do(make(1, "", "", ""))),
		story("deployment, pod deleted", do(make(2, "", "", "")), do(remove("pods/{web:0}", "")), do(remove("replicasets/{web:0}", ""))),
		story("deployment, set scaled by somebody else", do(make(2, "", "", "")), do(patch("replicasets/{web:0}", "spec: {replicas: 5}")), do(patch("replicasets/{web:0}", "metadata: {labels: {app: other}}"))),
		story("deployment, selector for everything", do(createFull("deployments", "metadata: {name: web}\nspec: {selector: {}, template: "+template("web", "", "")+"}"))),
		story("deployment, two of them that overlap", do(make(1, "", "", "")), do(create("deployments", "web2", workload("web", 2, "", template("web", "", probed)))), do(remove(web, background))),
		story("deployment, with terminating pods", do(make(2, "", "stop-delay=6s", "")), do(image(web, "web:2")).settling(time.Second), do().settling(8*time.Second)),
	)
}

func setScenarios() []scenario {
	const web = "replicasets/web"
	make := func(replicas int, more, annotations, podSpec string) request {
		return create("replicasets", "web", workload("web", replicas, more, template("web", annotations, podSpec)))
	}
	controller := func(replicas int, podTemplate string) request {
		return create("replicationcontrollers", "web", fmt.Sprintf("spec: {replicas: %d, selector: {app: web}, template: %s}", replicas, podTemplate))
	}
	plain := pod("loner", "app: web", "", "")
	return []scenario{
		story("replicaset, scaled", do(make(2, "", "", "")), do(spec(web, "replicas: 5")), do(spec(web, "replicas: 1")), do(spec(web, "replicas: 0")), do(remove(web, background))),
		story("replicaset, slow to be available", do(make(2, "minReadySeconds: 3", "", "")), do().settling(4*time.Second), do(spec(web, "replicas: 3")).settling(5*time.Second)),
		story("replicaset, adopts and releases", do(plain), do(make(2, "", "", "")), do(patch("pods/loner", "metadata: {labels: {app: other}}")), do(patch("pods/loner", "metadata: {labels: {app: web}}"))),
		story("replicaset, adopts too many", do(plain, pod("loner2", "app: web", "", ""), pod("loner3", "app: web", "", "")), do(make(1, "", "", ""))),
		story("replicaset, orphaned", do(make(2, "", "", "")), do(remove(web, orphan)), do(make(3, "", "", "")), do(remove(web, foreground))),
		story("replicaset, cost of deletion", do(make(3, "", "", "")), do(patch("pods/{web:0}", "metadata: {annotations: {controller.kubernetes.io/pod-deletion-cost: '-5'}, labels: {mark: cheap}}"),
			patch("pods/{web:2}", "metadata: {annotations: {controller.kubernetes.io/pod-deletion-cost: '9'}, labels: {mark: dear}}")), do(spec(web, "replicas: 2")), do(spec(web, "replicas: 1"))),
		story("replicaset, unready pods go first", do(make(1, "", "", probed)), do(strategic(web, "spec: {template: {metadata: {annotations: {hollow.millrace.dev/ready-after: 1h}}}}"), spec(web, "replicas: 3")), do(spec(web, "replicas: 1"))),
		story("replicaset, pods that fail", do(make(2, "", "", "activeDeadlineSeconds: 2, "+oneContainer)).settling(time.Second), do(spec(web, "replicas: 0"))),
		story("replicaset, invalid pods", do(make(2, "", "", "serviceAccountName: nobody, "+oneContainer)), do(createFull("serviceaccounts", "metadata: {name: nobody}")).settling(20*time.Second)),
		story("replicaset, pods that cannot be placed", do(make(2, "", "", "nodeSelector: {none: none}, "+oneContainer)), do(spec(web, "replicas: 0"))),
		story("replicaset, selector with expressions", do(createFull("replicasets", "metadata: {name: web}\nspec: {replicas: 2, selector: {matchExpressions: [{key: app, operator: In, values: [web, other]}]}, template: "+template("web", "", "")+"}"))),
		story("replicaset, with a finalizer on a pod", do(make(1, "", "", "")), do(patch("pods/{web:0}", "metadata: {finalizers: [example.com/keep]}"), remove("pods/{web:0}", "")), do(remove(web, foreground))),
		story("replicaset, other owner", do(plain), do(patch("pods/loner", "metadata: {ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: none, uid: 3b0cd1c9-7c5a-4a5a-9a39-000000000000, controller: true}]}"), make(1, "", "", ""))),
		story("replicationcontroller, scaled", do(controller(2, template("web", "", ""))), do(spec("replicationcontrollers/web", "replicas: 3")), do(remove("replicationcontrollers/web", orphan)), do(controller(1, template("web", "", ""))), do(remove("replicationcontrollers/web", background))),
		story("replicationcontroller, with too little quota", do(create("resourcequotas", "few", "spec: {hard: {pods: 1}}")), do(controller(3, template("web", "", ""))), do(spec("replicationcontrollers/web", "replicas: 1"))),
		story("replicaset, with too little quota", do(create("resourcequotas", "few", "spec: {hard: {pods: 1}}")), do(make(3, "", "", "")), do(spec(web, "replicas: 1"))),
		story("replicaset, terminating pods", do(make(2, "", "stop-delay=5s", "")), do(spec(web, "replicas: 1")).settling(time.Second), do().settling(6*time.Second)),
	}
}

func statefulScenarios() []scenario {
	const web = "statefulsets/web"
	make := func(replicas int, more, annotations, podSpec string) request {
		return create("statefulsets", "web", workload("web", replicas, "serviceName: web"+also(more), template("web", annotations, podSpec)))
	}
	claims := "volumeClaimTemplates: [{metadata: {name: data}, spec: {storageClassName: '', accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]"
	volume := func(n int) request {
		return createFull("persistentvolumes", fmt.Sprintf("metadata: {name: '{NS}-%d'}\nspec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], claimRef: {namespace: '{NS}', name: data-web-%d}, hostPath: {path: /tmp/x}, persistentVolumeReclaimPolicy: Retain}", n, n))
	}
	out := []scenario{
		story("statefulset, scaled", do(make(3, "", "", "")).settling(5*time.Second), do(spec(web, "replicas: 1")), do(spec(web, "replicas: 2")), do(spec(web, "replicas: 0")), do(remove(web, background))),
		story("statefulset, in parallel", do(make(3, "podManagementPolicy: Parallel", "", "")), do(image(web, "web:2")).settling(5*time.Second), do(spec(web, "replicas: 5")), do(spec(web, "replicas: 1"))),
		story("statefulset, waits for the first", do(make(3, "", "ready-after=1h", probed)), do(patch("pods/web-0", "metadata: {annotations: {x: y}}"), spec(web, "replicas: 2")), do(image(web, "web:2")), do(remove("pods/web-0", ""))),
		story("statefulset, partition", do(make(4, "updateStrategy: {rollingUpdate: {partition: 2}}", "", "")).settling(5*time.Second), do(image(web, "web:2")).settling(5*time.Second), do(remove("pods/web-0", "")),
			do(patch(web, "spec: {updateStrategy: {rollingUpdate: {partition: 0}}}")).settling(5*time.Second)),
		story("statefulset, more unavailable", do(make(4, "podManagementPolicy: Parallel, updateStrategy: {rollingUpdate: {maxUnavailable: 2}}", "", "")).settling(5*time.Second), do(image(web, "web:2")).settling(6*time.Second)),
		story("statefulset, more unavailable in order", do(make(4, "updateStrategy: {rollingUpdate: {maxUnavailable: 50%}}", "", "")).settling(5*time.Second), do(image(web, "web:2")).settling(6*time.Second)),
		story("statefulset, on delete", do(make(2, "updateStrategy: {type: OnDelete}", "", "")), do(image(web, "web:2")), do(remove("pods/web-1", "")), do(remove("pods/web-0", ""))),
		story("statefulset, from five", do(make(2, "ordinals: {start: 5}", "", "")), do(spec(web, "ordinals: {start: 6}")), do(spec(web, "ordinals: null")).settling(5*time.Second)),
		story("statefulset, slow to be available", do(make(2, "minReadySeconds: 2", "", "")).settling(8*time.Second), do(image(web, "web:2")).settling(10*time.Second)),
		story("statefulset, rolled back", do(make(2, "", "", "")), do(image(web, "web:2")).settling(4*time.Second), do(image(web, "web:1")).settling(4*time.Second), do(image(web, "web:3")).settling(4*time.Second)),
		story("statefulset, history of one", do(make(1, "revisionHistoryLimit: 1", "", "")), do(image(web, "web:2")), do(image(web, "web:3")), do(image(web, "web:4"))),
		story("statefulset, stuck update repaired", do(make(2, "", "", probed)), do(strategic(web, "spec: {template: {metadata: {annotations: {hollow.millrace.dev/ready-after: 1h}}}}")), do(strategic(web, "spec: {template: {metadata: {annotations: {hollow.millrace.dev/ready-after: 0s}}}}")),
			do(remove("pods/web-1", "")).settling(4*time.Second)),
		story("statefulset, pods that fail", do(make(1, "", "", "activeDeadlineSeconds: 4, "+oneContainer)).settling(time.Second), do(spec(web, "replicas: 0"))),
		story("statefulset, orphaned and adopted", do(make(2, "", "", "")), do(remove(web, orphan)), do(make(3, "", "", "")), do(remove(web, foreground))),
		story("statefulset, label of a pod changed", do(make(2, "", "", "")), do(patch("pods/web-1", "metadata: {labels: {app: other}}")), do(patch("pods/web-1", "metadata: {labels: {app: web}}"))),
		story("statefulset, name taken by a pod", do(pod("web-0", "app: other", "", "")), do(make(1, "", "", "")), do(remove("pods/web-0", "gracePeriodSeconds: 0")).settling(12*time.Second)),
		story("statefulset, with too little quota", do(create("resourcequotas", "few", "spec: {hard: {pods: 1}}")), do(make(2, "", "", "")), do(spec(web, "replicas: 1"))),
		story("statefulset, claims wait", do(make(1, claims, "", "")), do(remove(web, background))),
		story("statefulset, volume of an invalid claim", do(createFull("persistentvolumeclaims", "metadata: {name: data-web-0}\nspec: {storageClassName: '', accessModes: [ReadWriteMany], resources: {requests: {storage: 1Gi}}}"), make(1, claims, "", ""))),
		story("statefulset, deleted in the foreground", do(make(2, "", "stop-delay=3s", "")), do(remove(web, foreground)).settling(time.Second), do().settling(6*time.Second)),
		story("statefulset, slow to end", do(make(2, "", "stop-delay=4s", "")), do(spec(web, "replicas: 0")).settling(time.Second), do().settling(12*time.Second)),
		story("statefulset, service and host names", do(createFull("services", "metadata: {name: web}\nspec: {clusterIP: None, selector: {app: web}, ports: [{name: http, port: 80}]}"), make(2, "", "", ""))),
	}
	for _, deleted := range []string{"Retain", "Delete"} {
		for _, scaled := range []string{"Retain", "Delete"} {
			policy := fmt.Sprintf("persistentVolumeClaimRetentionPolicy: {whenDeleted: %s, whenScaled: %s}, %s", deleted, scaled, claims)
			out = append(out, story("statefulset, claims "+deleted+" and "+scaled, do(volume(0), volume(1)), do(make(2, policy, "", "")).settling(4*time.Second), do(spec(web, "replicas: 1")), do(spec(web, "replicas: 2")),
				do(spec(web, "persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete, whenScaled: Retain}")), do(remove(web, background))))
		}
	}
	return out
}

func daemonScenarios() []scenario {
	const web = "daemonsets/web"
	make := func(more, annotations, podSpec string) request {
		return create("daemonsets", "web", fmt.Sprintf("spec: {selector: {matchLabels: {app: web}}, template: %s%s}", template("web", annotations, podSpec), also(more)))
	}
	rolling := func(surge, unavailable string) string {
		return fmt.Sprintf("updateStrategy: {rollingUpdate: {maxSurge: %s, maxUnavailable: %s}}", surge, unavailable)
	}
	return []scenario{
		story("daemonset, updated", do(make("", "", "")), do(image(web, "web:2")).settling(6*time.Second), do(image(web, "web:1")).settling(6*time.Second), do(remove(web, background))),
		story("daemonset, updated by half", do(make(rolling("0", "50%"), "", "")), do(image(web, "web:2")).settling(5*time.Second)),
		story("daemonset, with a surge", do(make(rolling("2", "0"), "", "")), do(image(web, "web:2")).settling(6*time.Second)),
		story("daemonset, stuck", do(make(rolling("0", "2"), "", probed)), do(strategic(web, "spec: {template: {metadata: {annotations: {hollow.millrace.dev/ready-after: 1h}}}}")), do(strategic(web, "spec: {template: {metadata: {annotations: {hollow.millrace.dev/ready-after: 0s}}}}")).settling(6*time.Second)),
		story("daemonset, stuck with a surge", do(make(rolling("1", "0"), "", probed)), do(strategic(web, "spec: {template: {metadata: {annotations: {hollow.millrace.dev/ready-after: 1h}}}}")), do(strategic(web, "spec: {template: {metadata: {annotations: {hollow.millrace.dev/ready-after: 0s}}}}")).settling(6*time.Second)),
		story("daemonset, on delete", do(make("updateStrategy: {type: OnDelete}", "", "")), do(image(web, "web:2")), do(remove("pods/{web:0}", ""))),
		story("daemonset, nowhere", do(make("", "", "nodeSelector: {none: none}, "+oneContainer)), do(patch(web, "spec: {template: {spec: {nodeSelector: null}}}")).settling(4*time.Second)),
		story("daemonset, one node by its name", do(make("", "", "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [hollow-2]}]}]}}}, "+oneContainer))),
		story("daemonset, some nodes by affinity", do(make("", "", "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: NotIn, values: [hollow-1, hollow-2]}]}]}}}, "+oneContainer))),
		story("daemonset, orphaned and adopted", do(make("", "", "")), do(remove(web, orphan)), do(make("", "", "")), do(remove(web, foreground))),
		story("daemonset, history of one", do(make("revisionHistoryLimit: 1, "+rolling("0", "100%"), "", "")), do(image(web, "web:2")).settling(4*time.Second), do(image(web, "web:3")).settling(4*time.Second), do(image(web, "web:4")).settling(4*time.Second), do(image(web, "web:3")).settling(4*time.Second)),
		story("daemonset, pods that fail", do(make("", "", "nodeSelector: {kubernetes.io/hostname: hollow-3}, activeDeadlineSeconds: 4, "+oneContainer)).settling(time.Second), do(patch(web, "spec: {template: {spec: {nodeSelector: {none: none}}}}"))),
		story("daemonset, slow to be available", do(make("minReadySeconds: 6", "", "nodeSelector: {kubernetes.io/hostname: hollow-3}, "+oneContainer)), do().settling(8*time.Second), do(image(web, "web:2")).settling(14*time.Second)),
		story("daemonset, with too little quota", do(create("resourcequotas", "few", "spec: {hard: {pods: 2}}")), do(make("", "", ""))),
		story("daemonset, host port", do(make("", "", "containers: [{name: main, image: 'web:1', ports: [{containerPort: 80, hostPort: 80}]}]")), do(pod("other", "a: b", "", "containers: [{name: main, image: 'web:1', ports: [{containerPort: 80, hostPort: 80}]}]"))),
		story("daemonset, label of a pod changed", do(make("", "", "nodeSelector: {kubernetes.io/hostname: hollow-3}, "+oneContainer)), do(patch("pods/{web:0}", "metadata: {labels: {app: other}}"))),
		story("daemonset, selector for everything", do(createFull("daemonsets", "metadata: {name: web}\nspec: {selector: {}, template: "+template("web", "", "")+"}"))),
		story("daemonset, invalid pods", do(make("", "", "serviceAccountName: nobody, nodeSelector: {kubernetes.io/hostname: hollow-3}, "+oneContainer))),
	}
}
