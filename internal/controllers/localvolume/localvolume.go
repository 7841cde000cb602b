// Package localvolume provisions volumes that are directories of a node, for storage classes with the provisioner
// [Provisioner], and removes them.
//
// Guarantees: a claim of such a class gets at most one volume, named after the claim's UID, on the node that the
// scheduler has selected. For classes with immediate binding it is the ready node with the fewest volumes. A volume
// with the policy Delete is deleted only after its node has removed the data, or is gone itself; until then the removal
// is retried.
//
// The requested size is neither reserved nor enforced. Nodes of other kubelets, without the annotation
// [DirectoryAnnotation], get no volumes.
package localvolume

import (
	storagev1 "k8s.io/api/storage/v1"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/loop"
)

const (
	name = "local-volume-provisioner-controller"
	// Provisioner is the provisioner in storage classes for such volumes.
	Provisioner = "millrace.dev/local"
	// DirectoryAnnotation is the node annotation with the directory for volumes.
	DirectoryAnnotation = "millrace.dev/local-volumes"
	// nodeAnnotation is the volume annotation with the name of its node.
	nodeAnnotation = "millrace.dev/node"
	finalizer      = "millrace.dev/local-volume"
)

// Options configure what the loop makes at the start. The zero value makes nothing.
type Options struct {
	// Class is the name of a default storage class that is made at the start if the cluster has none with this
	// provisioner. If it is deleted, the next start makes it again.
	Class string
}

// Entry is this loop among the others.
func (o Options) Entry() loop.Entry {
	return loop.Entry{
		Name: name, Aliases: []string{"local-volume-provisioner"}, Source: Provisioner,
		New: func(c *loop.Clients) (loop.Runner, error) { return New(c, o) },
	}
}

type controller struct {
	kube     kubernetes.Interface
	recorder loop.Recorder

	claims  *informer.Shared[*corev1.PersistentVolumeClaim]
	volumes *informer.Shared[*corev1.PersistentVolume]
	classes *informer.Shared[*storagev1.StorageClass]
	nodes   *informer.Shared[*corev1.Node]

	claimWriter  *loop.Writer[*corev1.PersistentVolumeClaim]
	volumeWriter *loop.Writer[*corev1.PersistentVolume]
}

// onNode finds the volumes of this provisioner by node.
var onNode = informer.NewIndex(func(v *corev1.PersistentVolume) []string {
	if !ours(v) {
		return nil
	}
	return []string{v.Annotations[nodeAnnotation]}
})

// New returns the loop. One part of it has claims as keys, the other one volumes.
func New(c *loop.Clients, o Options) (loop.Runner, error) {
	r := &controller{
		kube: c.Kube, recorder: c.Recorder,
		claims:  loop.Informer(c, informer.For(c.Kube.CoreV1().PersistentVolumeClaims(""))),
		volumes: loop.Informer(c, informer.For(c.Kube.CoreV1().PersistentVolumes())),
		classes: loop.Informer(c, informer.For(c.Kube.StorageV1().StorageClasses())),
		nodes:   loop.Informer(c, informer.For(c.Kube.CoreV1().Nodes())),
	}
	r.volumes.AddIndex(onNode)
	core := c.Kube.CoreV1().RESTClient()
	r.claimWriter = loop.NewWriter(informer.ResourceOf[*corev1.PersistentVolumeClaim](core, "persistentvolumeclaims"), r.claims, "")
	r.volumeWriter = loop.NewWriter(informer.ResourceOf[*corev1.PersistentVolume](core, "persistentvolumes"), r.volumes, "")
	runners := []loop.Runner{
		&loop.Loop{
			Name: name + "-claims", Clients: c, Workers: 4, Sync: r.syncClaim,
			Watches: []loop.Watch{loop.Self(r.claims), loop.Reads(r.classes, r.volumes, r.nodes)},
		},
		&loop.Loop{
			Name: name + "-volumes", Clients: c, Workers: 8, Sync: r.syncVolume,
			Watches: []loop.Watch{loop.Self(r.volumes), loop.Changes(r.nodes, r.volumesOfNode)},
		},
	}
	if o.Class != "" {
		classes := loop.NewWriter(informer.ResourceOf[*storagev1.StorageClass](c.Kube.StorageV1().RESTClient(), "storageclasses"), r.classes, "")
		runners = append(runners, r.defaultClass(c, classes, o.Class))
	}
	return loop.Join(runners...), nil
}

// volumesOfNode returns the volumes of a deleted node, whose data is gone with it.
func (r *controller) volumesOfNode(before, after *corev1.Node) []loop.Key {
	if after != nil {
		return nil
	}
	var keys []loop.Key
	for key := range r.volumes.Keys(onNode, before.Name) {
		keys = append(keys, key)
	}
	return keys
}

func ours(v *corev1.PersistentVolume) bool {
	return v.Annotations["pv.kubernetes.io/provisioned-by"] == Provisioner && v.Spec.Local != nil
}
