package persistentvolume

import (
	"k8s.io/client-go/kubernetes"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/controllers/internal/meter"
	"github.com/millrace/millrace/internal/controllers/podview"
	"github.com/millrace/millrace/loop"
)

const name = "persistentvolume-binder-controller"

// Entry is this loop among the others.
func (o Options) Entry() loop.Entry {
	return loop.Entry{
		Name: name, Aliases: []string{"persistentvolume-binder"}, Source: "persistentvolume-controller",
		New: func(c *loop.Clients) (loop.Runner, error) { return New(c, o) },
	}
}

// Options configure the loop.
type Options struct {
	// NoProvisioning leaves claims without a volume as they are, whatever their class says.
	NoProvisioning bool
	// Metrics counts volumes and claims.
	Metrics *Metrics
}

type controller struct {
	Options
	kube     kubernetes.Interface
	recorder loop.Recorder

	claims  *informer.Shared[*corev1.PersistentVolumeClaim]
	volumes *informer.Shared[*corev1.PersistentVolume]
	classes *informer.Shared[*storagev1.StorageClass]
	pods    *informer.Shared[*podview.Pod]

	claimWriter  *loop.Writer[*corev1.PersistentVolumeClaim]
	volumeWriter *loop.Writer[*corev1.PersistentVolume]

	given given
}

var (
	// free finds the volumes that a claim may use, by class: those without a claim, or that name a claim that is not
	// bound to them yet.
	free = informer.NewIndex(func(v *corev1.PersistentVolume) []string {
		if r := v.Spec.ClaimRef; r != nil && r.UID != "" {
			return nil
		}
		return []string{ClassOfVolume(v)}
	})
	// byClaim finds volumes by the claim that they name.
	byClaim = informer.NewIndex(func(v *corev1.PersistentVolume) []string {
		if r := v.Spec.ClaimRef; r != nil {
			return []string{r.Namespace + "/" + r.Name}
		}
		return nil
	})
	// unbound finds the claims without a volume, by class.
	unbound = informer.NewIndex(func(c *corev1.PersistentVolumeClaim) []string {
		if _, done := c.Annotations[bindCompleted]; done {
			return nil
		}
		return []string{ClassOfClaim(c)}
	})
	// byVolume finds claims by the volume that they name.
	byVolume = informer.NewIndex(func(c *corev1.PersistentVolumeClaim) []string { return []string{c.Spec.VolumeName} })
)

// New returns the loop. One part of it has claims as keys, the other one volumes.
func New(c *loop.Clients, o Options) (loop.Runner, error) {
	if o.Metrics == nil {
		o.Metrics = NewMetrics(meter.New(nil))
	}
	r := &controller{
		Options: o,
		kube:    c.Kube, recorder: c.Recorder,
		claims:  loop.Informer(c, informer.For(c.Kube.CoreV1().PersistentVolumeClaims(""))),
		volumes: loop.Informer(c, informer.For(c.Kube.CoreV1().PersistentVolumes())),
		classes: loop.Informer(c, informer.For(c.Kube.StorageV1().StorageClasses())),
		pods:    podview.Informer(c),
	}
	r.volumes.AddIndex(free)
	r.volumes.AddIndex(byClaim)
	r.claims.AddIndex(unbound)
	r.claims.AddIndex(byVolume)
	podview.IndexClaims(r.pods)
	core := c.Kube.CoreV1().RESTClient()
	r.claimWriter = loop.NewWriter(informer.ResourceOf[*corev1.PersistentVolumeClaim](core, "persistentvolumeclaims"), r.claims, "")
	r.volumeWriter = loop.NewWriter(informer.ResourceOf[*corev1.PersistentVolume](core, "persistentvolumes"), r.volumes, "")
	claims := &loop.Loop{
		Name: name + "-claims", Clients: c, Workers: 4, Sync: r.syncClaim,
		Watches: []loop.Watch{
			loop.Self(r.claims), loop.Changes(r.volumes, r.claimsOfVolume), loop.Mapped(r.classes, r.claimsOfClass),
			loop.Changes(r.pods, r.claimsOfPod),
		},
	}
	volumes := &loop.Loop{
		Name: name + "-volumes", Clients: c, Workers: 4, Sync: r.syncVolume,
		Watches: []loop.Watch{loop.Self(r.volumes), loop.Changes(r.claims, r.volumesOfClaim), loop.Reads(r.classes)},
	}
	o.Metrics.Count(r.census)
	return loop.Join(claims, volumes), nil
}

// claimsOfVolume returns the claims that a change of a volume concerns: its claim, those that name it, and, when it
// becomes available, those that wait for a volume of its class.
func (r *controller) claimsOfVolume(before, after *corev1.PersistentVolume) []loop.Key {
	var keys []loop.Key
	for _, v := range []*corev1.PersistentVolume{before, after} {
		if v == nil {
			continue
		}
		if ref := v.Spec.ClaimRef; ref != nil {
			keys = append(keys, loop.Key{Namespace: ref.Namespace, Name: ref.Name})
		}
	}
	some := after
	if some == nil {
		some = before
	}
	for key := range r.claims.Keys(byVolume, some.Name) {
		keys = append(keys, key)
	}
	if after != nil && available(after) && (before == nil || !available(before)) {
		for key := range r.claims.Keys(unbound, ClassOfVolume(after)) {
			keys = append(keys, key)
		}
	}
	return keys
}

func available(v *corev1.PersistentVolume) bool {
	return v.Status.Phase == corev1.VolumeAvailable && v.Spec.ClaimRef == nil && v.DeletionTimestamp == nil
}

// claimsOfClass returns the claims that wait for a volume of a class, or for a default class.
func (r *controller) claimsOfClass(class *storagev1.StorageClass) []loop.Key {
	var keys []loop.Key
	for _, name := range []string{class.Name, ""} {
		for key := range r.claims.Keys(unbound, name) {
			keys = append(keys, key)
		}
	}
	return keys
}

// claimsOfPod returns the waiting claims of a new pod: an event says what they wait for.
func (r *controller) claimsOfPod(before, after *podview.Pod) []loop.Key {
	if before != nil || after == nil || after.Node != "" {
		return nil
	}
	var keys []loop.Key
	for _, claim := range after.Claims {
		keys = append(keys, loop.Key{Namespace: after.Namespace, Name: claim})
	}
	return keys
}

// volumesOfClaim returns the volumes that a claim names, or that name it.
func (r *controller) volumesOfClaim(before, after *corev1.PersistentVolumeClaim) []loop.Key {
	var keys []loop.Key
	for _, c := range []*corev1.PersistentVolumeClaim{before, after} {
		if c != nil && c.Spec.VolumeName != "" {
			keys = append(keys, loop.Key{Name: c.Spec.VolumeName})
		}
	}
	some := after
	if some == nil {
		some = before
	}
	for key := range r.volumes.Keys(byClaim, some.Namespace+"/"+some.Name) {
		keys = append(keys, key)
	}
	return keys
}
