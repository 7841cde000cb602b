package attachdetach

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/controllers/internal/meter"
	"github.com/millrace/millrace/internal/controllers/podview"
	"github.com/millrace/millrace/loop"
)

const name = "persistentvolume-attach-detach-controller"

// Entry is this loop among the others.
func (o Options) Entry() loop.Entry {
	return loop.Entry{
		Name: name, Aliases: []string{"attachdetach"}, Source: "attachdetach-controller",
		New: func(c *loop.Clients) (loop.Runner, error) { return New(c, o) },
	}
}

// Options configure the loop.
type Options struct {
	// NeverForce keeps the volumes of a node that is not ready attached until the kubelet has unmounted them. By
	// default they are detached after 6 minutes.
	NeverForce bool
	// Metrics counts attachments.
	Metrics *Metrics
}

type controller struct {
	Options
	recorder    loop.Recorder
	clients     *loop.Clients
	pods        *informer.Shared[*podview.Pod]
	claims      *informer.Shared[*corev1.PersistentVolumeClaim]
	volumes     *informer.Shared[*corev1.PersistentVolume]
	nodes       *informer.Shared[*corev1.Node]
	drivers     *informer.Shared[*storagev1.CSIDriver]
	attachments *informer.Shared[*storagev1.VolumeAttachment]

	attachmentWriter *loop.Writer[*storagev1.VolumeAttachment]
	nodeWriter       *loop.Writer[*corev1.Node]
}

var (
	byVolume = informer.NewIndex(func(a *storagev1.VolumeAttachment) []string {
		if v := a.Spec.Source.PersistentVolumeName; v != nil {
			return []string{*v}
		}
		return nil
	})
	byNode = informer.NewIndex(func(a *storagev1.VolumeAttachment) []string { return []string{a.Spec.NodeName} })
	// byDriver finds the volumes of a CSI driver.
	byDriver = informer.NewIndex(func(v *corev1.PersistentVolume) []string {
		if v.Spec.CSI == nil {
			return nil
		}
		return []string{v.Spec.CSI.Driver}
	})
)

// New returns the loop. One part of it has volumes as keys, the other one nodes.
func New(c *loop.Clients, o Options) (loop.Runner, error) {
	if o.Metrics == nil {
		o.Metrics = NewMetrics(meter.New(nil))
	}
	r := &controller{
		Options:  o,
		recorder: c.Recorder, clients: c, pods: podview.Informer(c),
		claims:      loop.Informer(c, informer.For(c.Kube.CoreV1().PersistentVolumeClaims(""))),
		volumes:     loop.Informer(c, informer.For(c.Kube.CoreV1().PersistentVolumes())),
		nodes:       loop.Informer(c, informer.For(c.Kube.CoreV1().Nodes())),
		drivers:     loop.Informer(c, informer.For(c.Kube.StorageV1().CSIDrivers())),
		attachments: loop.Informer(c, informer.For(c.Kube.StorageV1().VolumeAttachments())),
	}
	podview.IndexClaims(r.pods)
	r.attachments.AddIndex(byVolume)
	r.attachments.AddIndex(byNode)
	r.volumes.AddIndex(byDriver)
	r.attachmentWriter = loop.NewWriter(informer.ResourceOf[*storagev1.VolumeAttachment](c.Kube.StorageV1().RESTClient(), "volumeattachments"), r.attachments, "")
	r.nodeWriter = loop.NewWriter(informer.ResourceOf[*corev1.Node](c.Kube.CoreV1().RESTClient(), "nodes"), r.nodes, "")
	volumes := &loop.Loop{
		Name: name, Clients: c, Workers: 4, Sync: r.syncVolume,
		Watches: []loop.Watch{
			loop.Self(r.volumes), loop.Mapped(r.attachments, volumeOf), loop.Mapped(r.claims, ofClaim), loop.Mapped(r.pods, r.ofPod),
			loop.Mapped(r.drivers, r.ofDriver), loop.Mapped(r.nodes, r.ofNode, usesChanged),
		},
	}
	nodes := &loop.Loop{
		Name: name + "-nodes", Clients: c, Workers: 4, Sync: r.syncNode,
		Watches: []loop.Watch{
			loop.Self(r.nodes, usesChanged), loop.Mapped(r.attachments, nodeOf), loop.Mapped(r.pods, r.nodeOfPod),
			loop.Reads(r.volumes, r.claims, r.drivers),
		},
	}
	o.Metrics.Count(r.census)
	return loop.Join(volumes, nodes), nil
}

func volumeOf(a *storagev1.VolumeAttachment) []loop.Key {
	if v := a.Spec.Source.PersistentVolumeName; v != nil {
		return []loop.Key{{Name: *v}}
	}
	return nil
}

func nodeOf(a *storagev1.VolumeAttachment) []loop.Key { return []loop.Key{{Name: a.Spec.NodeName}} }

func ofClaim(c *corev1.PersistentVolumeClaim) []loop.Key {
	if c.Spec.VolumeName == "" {
		return nil
	}
	return []loop.Key{{Name: c.Spec.VolumeName}}
}

// ofPod returns the volumes of a pod that has a node.
func (r *controller) ofPod(p *podview.Pod) []loop.Key {
	if p.Node == "" {
		return nil
	}
	var keys []loop.Key
	for _, name := range p.Claims {
		if claim, ok := r.claims.Get(p.Namespace, name); ok {
			keys = append(keys, ofClaim(claim)...)
		}
	}
	return keys
}

func (r *controller) nodeOfPod(p *podview.Pod) []loop.Key {
	if p.Node == "" || len(p.Claims) == 0 {
		return nil
	}
	return []loop.Key{{Name: p.Node}}
}

func (r *controller) ofDriver(d *storagev1.CSIDriver) []loop.Key {
	var keys []loop.Key
	for key := range r.volumes.Keys(byDriver, d.Name) {
		keys = append(keys, key)
	}
	return keys
}

// ofNode returns the volumes that are attached to a node.
func (r *controller) ofNode(n *corev1.Node) []loop.Key {
	var keys []loop.Key
	for a := range r.attachments.By(byNode, n.Name) {
		keys = append(keys, volumeOf(a)...)
	}
	return keys
}

// usesChanged accepts changes that may allow or need an attachment. It ignores heartbeats.
func usesChanged(before, after *corev1.Node) bool {
	if before == nil || after == nil {
		return true
	}
	return !equality.Semantic.DeepEqual(before.Status.VolumesInUse, after.Status.VolumesInUse) ||
		!equality.Semantic.DeepEqual(before.Status.VolumesAttached, after.Status.VolumesAttached) ||
		!equality.Semantic.DeepEqual(before.Spec.Taints, after.Spec.Taints) || before.Annotations[managed] != after.Annotations[managed]
}
