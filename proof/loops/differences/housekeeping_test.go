package differences_test

import (
	"fmt"
	"time"
)

func quotaScenarios() []scenario {
	quota := func(hard, more string) request {
		return create("resourcequotas", "q", "spec: {hard: {"+hard+"}"+also(more)+"}")
	}
	const asks = "containers: [{name: main, image: 'web:1', resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {cpu: 200m, memory: 64Mi}}}]"
	return []scenario{
		story("quota, pods", do(quota("pods: 3, requests.cpu: 1, limits.cpu: 1, requests.memory: 1Gi", "")), do(pod("a", "a: b", "", asks)), do(pod("b", "a: b", "", asks)), do(remove("pods/a", "")), do(pod("c", "a: b", "", ""))),
		story("quota, existing pods", do(pod("a", "a: b", "", asks), pod("b", "a: b", "", "")), do(quota("pods: 1, cpu: 1, memory: 1Gi", "")), do(patch("resourcequotas/q", "spec: {hard: {pods: 5, memory: null}}"))),
		story("quota, pods that end", do(quota("pods: 3, count/pods: 3", "")), do(pod("a", "a: b", "run-for=1s", never)).settling(6*time.Second), do(remove("pods/a", ""))),
		story("quota, objects", do(quota("configmaps: 3, secrets: 2, services: 2, services.nodeports: 1, services.loadbalancers: 1, count/deployments.apps: 1, replicationcontrollers: 1, resourcequotas: 1, persistentvolumeclaims: 1", "")),
			do(createFull("configmaps", "metadata: {name: one}"), createFull("secrets", "metadata: {name: one}"), createFull("services", "metadata: {name: web}\nspec: {type: NodePort, ports: [{port: 80}]}")), do(remove("configmaps/one", ""), remove("services/web", ""))),
		story("quota, storage", do(quota("requests.storage: 5Gi, persistentvolumeclaims: 2, slow.storageclass.storage.k8s.io/requests.storage: 2Gi, slow.storageclass.storage.k8s.io/persistentvolumeclaims: 1", "")), do(claim("a", "2Gi", "slow", ""), claim("b", "2Gi", "", ""), claim("c", "2Gi", "", ""))),
		story("quota, best effort", do(quota("pods: 2", "scopes: [BestEffort]")), do(pod("a", "a: b", "", ""), pod("b", "a: b", "", asks))),
		story("quota, not best effort", do(quota("pods: 2, requests.cpu: 1", "scopes: [NotBestEffort]")), do(pod("a", "a: b", "", ""), pod("b", "a: b", "", asks))),
		story("quota, terminating", do(quota("pods: 2", "scopes: [Terminating]")), do(pod("a", "a: b", "", ""), pod("b", "a: b", "", "activeDeadlineSeconds: 100, "+oneContainer))),
		story("quota, by priority", do(quota("pods: 2", "scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In, values: ['{NS}-high']}]}"), createFull("priorityclasses", "metadata: {name: '{NS}-high'}\nvalue: 10")).settling(3*time.Second), do(pod("a", "a: b", "", ""), pod("b", "a: b", "", "priorityClassName: '{NS}-high', "+oneContainer))),
		story("quota, status changed by hand", do(quota("pods: 2", "")), do(pod("a", "a: b", "", "")), do(patch("resourcequotas/q/status", "status: {used: {pods: 2}}"))),
		story("quota, devices", do(quota("requests.example.com/gpu: 2", "")), do(pod("a", "a: b", "", "containers: [{name: main, image: 'web:1', resources: {limits: {example.com/gpu: 1}}}]"))),
	}
}

func namespaceScenarios() []scenario {
	const ns = "namespaces/{NS}"
	things := []request{createFull("configmaps", "metadata: {name: one}"), create("deployments", "web", workload("web", 2, "", template("web", "", ""))), createFull("services", "metadata: {name: web}\nspec: {selector: {app: web}, ports: [{port: 80}]}")}
	return []scenario{
		story("namespace, deleted with all", do(things...), do(remove(ns, "")).settling(12*time.Second)),
		story("namespace, a finalizer remains", do(append(things, createFull("configmaps", "metadata: {name: kept, finalizers: [example.com/keep]}"))...), do(remove(ns, "")).settling(12*time.Second), do(createFull("configmaps", "metadata: {name: late}")), do(patch("configmaps/kept", "metadata: {finalizers: null}")).settling(15*time.Second)),
		story("namespace, pods end slowly", do(pod("slow", "a: b", "stop-delay=20s", "")), do(remove(ns, "")).settling(8*time.Second), do().awaiting("^write namespace-controller update namespaces/finalize")),
		story("namespace, several finalizers", do(createFull("configmaps", "metadata: {name: a, finalizers: [example.com/a, example.com/b]}"), createFull("secrets", "metadata: {name: b, finalizers: [example.com/a]}")), do(remove(ns, "")).settling(8*time.Second)),
	}
}

// owned is a config map with owners.
func owned(name, owners string) request {
	return createFull("configmaps", fmt.Sprintf("metadata: {name: %s, ownerReferences: [%s]}", name, owners))
}

func garbageScenarios() []scenario {
	const nobody = "{apiVersion: v1, kind: ConfigMap, name: none, uid: 3b0cd1c9-7c5a-4a5a-9a39-000000000000}"
	const stranger = "{apiVersion: example.com/v1, kind: Thing, name: none, uid: 3b0cd1c9-7c5a-4a5a-9a39-000000000001}"
	set := create("replicasets", "web", workload("web", 2, "", template("web", "", "")))
	const web = "replicasets/web"
	keep := patch("pods/{web:0}", "metadata: {finalizers: [example.com/keep]}")
	by := func(more string) string {
		return "{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: '{uid replicasets web}'" + also(more) + "}"
	}
	slow := 6 * time.Second
	var out []scenario
	for _, policy := range []string{orphan, foreground, background} {
		out = append(out, story("garbage, "+policy, do(set), do(owned("mine", by("")), owned("block", by("blockOwnerDeletion: true")), owned("shared", by("")+", "+nobody)).settling(slow), do(remove(web, policy)).settling(slow)),
			story("garbage, with a finalizer, "+policy, do(set), do(keep, remove(web, policy)).settling(slow), do(patch("pods/{web:0}", "metadata: {finalizers: null}")).settling(slow)))
	}
	return append(out,
		story("garbage, owner that never was", do(owned("one", nobody)).settling(slow)),
		story("garbage, one of two owners was", do(createFull("configmaps", "metadata: {name: root}")), do(owned("one", "{apiVersion: v1, kind: ConfigMap, name: root, uid: '{uid configmaps root}'}, "+nobody)).settling(slow), do(remove("configmaps/root", "")).settling(slow)),
		story("garbage, another one of the same name", do(createFull("configmaps", "metadata: {name: none}")), do(owned("one", nobody)).settling(slow)),
		story("garbage, unknown kind", do(owned("one", stranger)).settling(slow)),
		story("garbage, owner in the cluster", do(volume("a", "1Gi", "", "")), do(owned("one", "{apiVersion: v1, kind: PersistentVolume, name: '{NS}-a', uid: '{uid persistentvolumes {NS}-a}'}")).settling(slow), do(remove("persistentvolumes/{NS}-a", "")).settling(slow)),
		story("garbage, owner in a namespace", do(createFull("configmaps", "metadata: {name: root}")), do(createFull("persistentvolumes", "metadata: {name: '{NS}-a', ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: root, uid: '{uid configmaps root}'}]}\nspec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /tmp/x}}")).settling(slow)),
		story("garbage, chain", do(createFull("configmaps", "metadata: {name: a}")), do(owned("b", "{apiVersion: v1, kind: ConfigMap, name: a, uid: '{uid configmaps a}'}")), do(owned("c", "{apiVersion: v1, kind: ConfigMap, name: b, uid: '{uid configmaps b}', blockOwnerDeletion: true}")), do(remove("configmaps/a", foreground)).settling(slow)),
		story("garbage, cycle", do(createFull("configmaps", "metadata: {name: a}")), do(owned("b", "{apiVersion: v1, kind: ConfigMap, name: a, uid: '{uid configmaps a}', blockOwnerDeletion: true}")), do(patch("configmaps/a", "metadata: {ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: b, uid: '{uid configmaps b}', blockOwnerDeletion: true}]}")).settling(slow), do(remove("configmaps/a", foreground)).settling(slow)),
		story("garbage, owner of itself", do(createFull("configmaps", "metadata: {name: a}")), do(patch("configmaps/a", "metadata: {ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: a, uid: '{uid configmaps a}'}]}")).settling(slow), do(remove("configmaps/a", foreground)).settling(slow)),
		story("garbage, orphaned chain", do(createFull("configmaps", "metadata: {name: a}")), do(owned("b", "{apiVersion: v1, kind: ConfigMap, name: a, uid: '{uid configmaps a}'}")), do(remove("configmaps/a", orphan)).settling(slow)),
		story("garbage, deployment in the foreground", do(create("deployments", "web", workload("web", 2, "", template("web", "stop-delay=3s", "")))), do(remove("deployments/web", foreground)).settling(time.Second), do().settling(8*time.Second)),
		story("garbage, owner with another version", do(create("deployments", "web", workload("web", 1, "", template("web", "", "")))), do(owned("one", "{apiVersion: apps/v1beta9, kind: Deployment, name: web, uid: '{uid deployments web}'}")).settling(slow), do(remove("deployments/web", background)).settling(slow)),
	)
}

func accountScenarios() []scenario {
	token := func(name, account, more string) request {
		return createFull("secrets", "metadata: {name: "+name+", annotations: {kubernetes.io/service-account.name: "+account+"}"+also(more)+"}\ntype: kubernetes.io/service-account-token")
	}
	return []scenario{
		story("account, default comes again", do(remove("serviceaccounts/default", "")), do(remove("configmaps/kube-root-ca.crt", "")), do(patch("configmaps/kube-root-ca.crt", "{data: {ca.crt: x, other: y}}")), do(patch("configmaps/kube-root-ca.crt", "{metadata: {annotations: null, labels: {x: y}}}"))),
		story("account, token", do(createFull("serviceaccounts", "metadata: {name: robot}")), do(token("robot-token", "robot", "")), do(patch("secrets/robot-token", "{data: {token: null}}")), do(patch("secrets/robot-token", "{data: {ca.crt: null, namespace: eA==}}")), do(remove("serviceaccounts/robot", ""))),
		story("account, token of nobody", do(token("late", "late", "")), do(createFull("serviceaccounts", "metadata: {name: late}"))),
		story("account, token of another", do(createFull("serviceaccounts", "metadata: {name: robot}")), do(createFull("secrets", "metadata: {name: wrong, annotations: {kubernetes.io/service-account.name: robot, kubernetes.io/service-account.uid: other}}\ntype: kubernetes.io/service-account-token"))),
		story("account, token that it names", do(createFull("serviceaccounts", "metadata: {name: robot}\nsecrets: [{name: named}]"), token("named", "robot", "")), do(remove("secrets/named", "")), do(remove("serviceaccounts/robot", ""))),
		story("account, aggregated role", do(createFull("clusterroles", "metadata: {name: '{NS}-all'}\naggregationRule: {clusterRoleSelectors: [{matchLabels: {of: '{NS}'}}]}"), createFull("clusterroles", "metadata: {name: '{NS}-a', labels: {of: '{NS}'}}\nrules: [{apiGroups: [''], resources: [pods], verbs: [get]}]")),
			do(createFull("clusterroles", "metadata: {name: '{NS}-b', labels: {of: '{NS}'}}\nrules: [{apiGroups: [''], resources: [pods], verbs: [get]}, {apiGroups: [''], resources: [secrets], verbs: [get]}]")), do(patch("clusterroles/{NS}-a", "metadata: {labels: {of: nobody}}")), do(remove("clusterroles/{NS}-b", ""))),
		story("account, pod of one that is gone", do(createFull("serviceaccounts", "metadata: {name: robot}")), do(pod("one", "a: b", "", "serviceAccountName: robot, "+oneContainer)), do(remove("serviceaccounts/robot", ""))),
	}
}

func certificateScenarios() []scenario {
	asking := func(name, signer, usages string) request {
		return createFull("certificatesigningrequests", "metadata: {name: '{NS}-"+name+"'}\nspec: {request: '{request}', signerName: "+signer+", usages: ["+usages+"]}")
	}
	approval := func(kind string) request {
		return patch("certificatesigningrequests/{NS}-a/approval", "status: {conditions: [{type: "+kind+", status: 'True', reason: Mine, message: m}]}")
	}
	const client = "kubernetes.io/kube-apiserver-client"
	return []scenario{
		story("certificate, of a client", do(asking("a", client, "client auth, digital signature")), do(approval("Approved"))),
		story("certificate, denied", do(asking("a", client, "client auth")), do(approval("Denied"))),
		story("certificate, wrong usages", do(asking("a", client, "server auth")), do(approval("Approved"))),
		story("certificate, of a kubelet's client", do(asking("a", "kubernetes.io/kube-apiserver-client-kubelet", "client auth, digital signature")), do(approval("Approved"))),
		story("certificate, of a kubelet", do(asking("a", "kubernetes.io/kubelet-serving", "server auth, digital signature")), do(approval("Approved"))),
		story("certificate, of an old signer", do(asking("a", "kubernetes.io/legacy-unknown", "server auth, client auth")), do(approval("Approved"))),
		story("certificate, of somebody outside", do(asking("a", "example.com/mine", "server auth")), do(approval("Approved"))),
	}
}
