package scheduler

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/scheduler/internal/backlog"
	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
	"github.com/millrace/millrace/loop"
)

// Storage are the informers for volumes. A nil one counts as empty.
type Storage struct {
	Claims      *informer.Shared[*corev1.PersistentVolumeClaim]
	Volumes     *informer.Shared[*corev1.PersistentVolume]
	Classes     *informer.Shared[*storagev1.StorageClass]
	Nodes       *informer.Shared[*storagev1.CSINode]
	Drivers     *informer.Shared[*storagev1.CSIDriver]
	Capacities  *informer.Shared[*storagev1.CSIStorageCapacity]
	Attachments *informer.Shared[*storagev1.VolumeAttachment]
}

func storageOf(c *loop.Clients) Storage {
	return Storage{
		Claims:      loop.Informer(c, informer.For(c.Kube.CoreV1().PersistentVolumeClaims(""))),
		Volumes:     loop.Informer(c, informer.For(c.Kube.CoreV1().PersistentVolumes())),
		Classes:     loop.Informer(c, informer.For(c.Kube.StorageV1().StorageClasses())),
		Nodes:       loop.Informer(c, informer.For(c.Kube.StorageV1().CSINodes())),
		Drivers:     loop.Informer(c, informer.For(c.Kube.StorageV1().CSIDrivers())),
		Capacities:  loop.Informer(c, informer.For(c.Kube.StorageV1().CSIStorageCapacities(""))),
		Attachments: loop.Informer(c, informer.For(c.Kube.StorageV1().VolumeAttachments())),
	}
}

// followStorage adds handlers to the informers for volumes.
func (k *knowledge) followStorage() registrations {
	s, to := k.options.Watched.Storage, &k.state.Storage
	var a registrations
	if s.Claims != nil {
		a = append(a, follow(k, s.Claims, k.claimChanged))
	}
	if s.Volumes != nil {
		a = append(a, follow(k, s.Volumes, k.volumeChanged))
	}
	a = append(a, followStored(k, s.Classes, cluster.ClassChanged, func(key informer.Key, class *storagev1.StorageClass) {
		to.SetClass(key.Name, class)
	})...)
	a = append(a, followStored(k, s.Nodes, cluster.DriverChanged, func(key informer.Key, node *storagev1.CSINode) {
		to.SetNode(key.Name, node)
	})...)
	a = append(a, followStored(k, s.Drivers, cluster.DriverChanged, func(key informer.Key, driver *storagev1.CSIDriver) {
		to.SetDriver(key.Name, driver)
	})...)
	a = append(a, followStored(k, s.Capacities, cluster.DriverChanged, func(key informer.Key, capacity *storagev1.CSIStorageCapacity) {
		to.SetCapacity(cluster.Key(key), capacity)
	})...)
	return append(a, followStored(k, s.Attachments, cluster.DriverChanged, func(key informer.Key, attachment *storagev1.VolumeAttachment) {
		to.SetAttachment(key.Name, attachment)
	})...)
}

// followStored sets the state of each object, or nil when it was deleted.
func followStored[T any](k *knowledge, objects *informer.Shared[*T], change cluster.Change, set func(informer.Key, *T)) registrations {
	if objects == nil {
		return nil
	}
	event := backlog.EventOf(change).String()
	return registrations{follow(k, objects, func(key informer.Key) string {
		object, _ := objects.Lookup(key)
		k.lock()
		defer k.mu.Unlock()
		set(key, object)
		k.wakeFor(change, nil)
		k.storageChanged()
		return event
	})}
}

func (k *knowledge) claimChanged(key informer.Key) string {
	object, _ := k.options.Watched.Storage.Claims.Lookup(key)
	k.lock()
	defer k.mu.Unlock()
	k.state.Storage.SetClaim(cluster.Key(key), object)
	if object != nil {
		k.wakeSomeFor(cluster.ClaimChanged, nil, uses(cluster.Key(key)))
	}
	k.storageChanged()
	return "PersistentVolumeClaimUpdate"
}

func (k *knowledge) volumeChanged(key informer.Key) string {
	object, _ := k.options.Watched.Storage.Volumes.Lookup(key)
	k.lock()
	defer k.mu.Unlock()
	k.state.Storage.SetVolume(key.Name, object)
	if object != nil {
		var some func(*cluster.Pod) bool // any pod may use a volume that has become free
		if claim := object.Spec.ClaimRef; claim != nil {
			some = uses(cluster.Key{Namespace: claim.Namespace, Name: claim.Name})
		}
		k.wakeSomeFor(cluster.VolumeChanged, nil, some)
	}
	k.storageChanged()
	return "PersistentVolumeUpdate"
}

// storageChanged wakes goroutines that wait for changes of volumes or devices.
func (k *knowledge) storageChanged() {
	if k.storageChange != nil {
		close(k.storageChange)
		k.storageChange = nil
	}
}

// uses returns a function that is true for pods that use a claim.
func uses(claim cluster.Key) func(*cluster.Pod) bool {
	return func(pod *cluster.Pod) bool {
		return pod.Key.Namespace == claim.Namespace &&
			slices.ContainsFunc(pod.Volumes, func(v cluster.Volume) bool { return v.Claim == claim.Name })
	}
}

// writer writes with a client.
type writer struct{ kube kubernetes.Interface }

func (w writer) UpdateVolume(ctx context.Context, volume *corev1.PersistentVolume) (*corev1.PersistentVolume, error) {
	return w.kube.CoreV1().PersistentVolumes().Update(ctx, volume, metav1.UpdateOptions{})
}

func (w writer) UpdateClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim) (*corev1.PersistentVolumeClaim, error) {
	return w.kube.CoreV1().PersistentVolumeClaims(claim.Namespace).Update(ctx, claim, metav1.UpdateOptions{})
}
