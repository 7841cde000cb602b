package differences_test

import (
	"fmt"
	"time"
)

// volume is a volume of the scenario, of some size and class, with more fields.
func volume(name, size, class, more string) request {
	return createFull("persistentvolumes", fmt.Sprintf("metadata: {name: '{NS}-%s', labels: {of: %s}}\nspec: {capacity: {storage: %s}, storageClassName: '%s', accessModes: [ReadWriteOnce], hostPath: {path: /tmp/x}%s}", name, name, size, class, also(more)))
}

func claim(name, size, class, more string) request {
	return createFull("persistentvolumeclaims", fmt.Sprintf("metadata: {name: %s}\nspec: {resources: {requests: {storage: %s}}, storageClassName: '%s', accessModes: [ReadWriteOnce]%s}", name, size, class, also(more)))
}

// class is a storage class of the scenario.
func class(name, provisioner, more string) request {
	return createFull("storageclasses", fmt.Sprintf("metadata: {name: '{NS}-%s'}\nprovisioner: %s\n%s", name, provisioner, more))
}

func mounting(name string) string {
	return oneContainer + ", volumes: [{name: data, persistentVolumeClaim: {claimName: " + name + "}}]"
}

func volumeScenarios() []scenario {
	const mine, keep, del = "{NS}-mine", "persistentVolumeReclaimPolicy: Retain", "persistentVolumeReclaimPolicy: Delete"
	data := "persistentvolumeclaims/data"
	return []scenario{
		story("volume, bound and released", do(volume("a", "1Gi", mine, keep)), do(claim("data", "1Gi", mine, "")), do(remove(data, ""))),
		story("volume, deleted by its policy", do(volume("a", "1Gi", mine, del)), do(claim("data", "1Gi", mine, ""))),
		story("volume, recycled", do(volume("a", "1Gi", mine, "persistentVolumeReclaimPolicy: Retain"), claim("data", "1Gi", mine, "")), do(remove(data, "")), do(patch("persistentvolumes/{NS}-a", "spec: {claimRef: null}")), do(claim("data", "1Gi", mine, ""))),
		story("volume, smallest that fits", do(volume("a", "5Gi", mine, keep), volume("b", "2Gi", mine, keep), volume("c", "1Gi", mine, keep)), do(claim("data", "2Gi", mine, "")), do(claim("more", "2Gi", mine, "")), do(claim("most", "9Gi", mine, ""))),
		story("volume, by selector", do(volume("a", "1Gi", mine, keep), volume("b", "2Gi", mine, keep)), do(claim("data", "1Gi", mine, "selector: {matchLabels: {of: b}}")), do(claim("none", "1Gi", mine, "selector: {matchLabels: {of: z}}"))),
		story("volume, by name", do(volume("a", "1Gi", mine, keep), volume("b", "1Gi", mine, keep)), do(claim("data", "1Gi", mine, "volumeName: '{NS}-b'")), do(claim("more", "1Gi", mine, "volumeName: '{NS}-b'")), do(claim("none", "1Gi", mine, "volumeName: '{NS}-z'"))),
		story("volume, by name and too small", do(volume("a", "1Gi", mine, keep)), do(claim("data", "2Gi", mine, "volumeName: '{NS}-a'"))),
		story("volume, by name and of another class", do(volume("a", "1Gi", mine, keep)), do(claim("data", "1Gi", "{NS}-other", "volumeName: '{NS}-a'"))),
		story("volume, reserved", do(volume("a", "1Gi", mine, keep+", claimRef: {namespace: '{NS}', name: data}")), do(claim("more", "1Gi", mine, "")), do(claim("data", "1Gi", mine, ""))),
		story("volume, of a claim that is gone", do(volume("a", "1Gi", mine, keep+", claimRef: {namespace: '{NS}', name: data, uid: 3b0cd1c9-7c5a-4a5a-9a39-000000000000}")), do(claim("data", "1Gi", mine, ""))),
		story("volume, modes", do(volume("a", "1Gi", mine, keep+", volumeMode: Block")), do(claim("data", "1Gi", mine, "")), do(claim("block", "1Gi", mine, "volumeMode: Block"))),
		story("volume, lost", do(volume("a", "1Gi", mine, keep)), do(claim("data", "1Gi", mine, "")), do(patch("persistentvolumes/{NS}-a", "metadata: {finalizers: null}")), do(remove("persistentvolumes/{NS}-a", ""), patch("persistentvolumes/{NS}-a", "metadata: {finalizers: null}"))),
		story("volume, deleted in use", do(volume("a", "1Gi", mine, keep)), do(claim("data", "1Gi", mine, "")), do(remove("persistentvolumes/{NS}-a", "")), do(remove(data, ""))),
		story("volume, class that nobody has", do(claim("data", "1Gi", mine, "")), do(pod("one", "a: b", "", mounting("data")))),
		story("volume, class of somebody outside", do(class("mine", "example.com/disks", ""), claim("data", "1Gi", mine, "")), do(remove("storageclasses/{NS}-mine", "")).settling(20*time.Second)),
		story("volume, class of nobody", do(class("mine", "kubernetes.io/no-provisioner", "")), do(claim("data", "1Gi", mine, "")), do(volume("a", "1Gi", mine, keep)).settling(20*time.Second)),
		story("volume, class that waits", do(class("mine", "kubernetes.io/no-provisioner", "volumeBindingMode: WaitForFirstConsumer"), volume("a", "1Gi", mine, keep)), do(claim("data", "1Gi", mine, "")), do(pod("one", "a: b", "", mounting("data"))).settling(20*time.Second), do(remove("pods/one", ""), remove(data, ""))),
		story("volume, class that waits and has none", do(class("mine", "kubernetes.io/no-provisioner", "volumeBindingMode: WaitForFirstConsumer")), do(claim("data", "1Gi", mine, "")), do(pod("one", "a: b", "", mounting("data"))).settling(20*time.Second)),
		story("volume, class that waits for somebody outside", do(class("mine", "example.com/disks", "volumeBindingMode: WaitForFirstConsumer")), do(claim("data", "1Gi", mine, "")), do(pod("one", "a: b", "", mounting("data"))).settling(20*time.Second)),
		story("volume, class of an old plugin", do(class("mine", "kubernetes.io/aws-ebs", ""), claim("data", "1Gi", mine, ""))),
		story("volume, unknown plugin", do(class("mine", "kubernetes.io/unknown", ""), claim("data", "1Gi", mine, ""))),
		story("volume, claim in use", do(volume("a", "1Gi", mine, keep)), do(claim("data", "1Gi", mine, "")), do(pod("one", "a: b", "", mounting("data"))), do(remove(data, "")), do(remove("pods/one", ""))),
		story("volume, claim in use by a pod that has ended", do(volume("a", "1Gi", mine, keep)), do(claim("data", "1Gi", mine, "")), do(pod("one", "a: b", "run-for=0s", "restartPolicy: Never, "+mounting("data"))).settling(4*time.Second), do(remove(data, ""))),
		story("volume, claim that is not there", do(pod("one", "a: b", "", mounting("data"))), do(volume("a", "1Gi", mine, keep)), do(claim("data", "1Gi", mine, ""))),
		story("volume, claim grows", do(class("mine", "example.com/disks", "allowVolumeExpansion: true"), volume("a", "1Gi", mine, keep)), do(claim("data", "1Gi", mine, "")), do(patch(data, "spec: {resources: {requests: {storage: 2Gi}}}")).settling(4*time.Second)),
		story("volume, grows alone", do(volume("a", "1Gi", mine, keep)), do(claim("data", "1Gi", mine, "")), do(patch("persistentvolumes/{NS}-a", "spec: {capacity: {storage: 2Gi}}"))),
		story("volume, ephemeral", do(pod("one", "a: b", "", oneContainer+", volumes: [{name: data, ephemeral: {volumeClaimTemplate: {metadata: {labels: {x: z}}, spec: {storageClassName: '', accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}}]")), do(remove("pods/one", ""))),
		story("volume, ephemeral and the name is taken", do(claim("one-data", "1Gi", "", "")), do(pod("one", "a: b", "", oneContainer+", volumes: [{name: data, ephemeral: {volumeClaimTemplate: {spec: {storageClassName: '', accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}}]"))),
		story("volume, policy changed after release", do(volume("a", "1Gi", mine, keep)), do(claim("data", "1Gi", mine, "")), do(remove(data, "")), do(remove("persistentvolumes/{NS}-a", ""))),
	}
}
