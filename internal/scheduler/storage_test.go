package scheduler

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"
)

// UpdateVolume writes a volume and binds the claim that it names, as the volume controller would.
func (w *world) UpdateVolume(_ context.Context, v *corev1.PersistentVolume) (*corev1.PersistentVolume, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	v = v.DeepCopy()
	v.Status.Phase = corev1.VolumeBound
	w.volumes.Modify(v)
	for _, claim := range w.claims.Objects() {
		if claim.Name == v.Spec.ClaimRef.Name {
			w.bindClaimLocked(claim, v.Name)
		}
	}
	return v, nil
}

// UpdateClaim writes a claim. The test is the provisioner.
func (w *world) UpdateClaim(_ context.Context, claim *corev1.PersistentVolumeClaim) (*corev1.PersistentVolumeClaim, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.claimFault != nil {
		if err := w.claimFault(); err != nil {
			return nil, err
		}
	}
	return w.claims.Modify(claim), nil
}

func (w *world) bindClaimLocked(claim *corev1.PersistentVolumeClaim, v string) {
	claim = claim.DeepCopy()
	claim.Spec.VolumeName, claim.Status.Phase = v, corev1.ClaimBound
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, volume.AnnBindCompleted, "yes")
	w.claims.Modify(claim)
}

// provision makes a volume on the node that was selected for a claim, and binds it.
func (w *world) provision(t *testing.T, name string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, claim := range w.claims.Objects() {
		if node := claim.Annotations[volume.AnnSelectedNode]; claim.Name == name && node != "" {
			w.volumes.Add(testVolume("pv-"+name, "1Gi", "later", node))
			w.bindClaimLocked(claim, "pv-"+name)
			return
		}
	}
	t.Errorf("no node is selected for claim %s", name)
}

func (w *world) selected(name string) string {
	for _, claim := range w.claims.Objects() {
		if claim.Name == name {
			return claim.Annotations[volume.AnnSelectedNode]
		}
	}
	return ""
}

// testVolume returns a free volume that can be used on one node, or everywhere.
func testVolume(name, size, class, node string) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadWriteOncePod},
			Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: "disks", VolumeHandle: name},
			},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeAvailable},
	}
	if node != "" {
		v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
		}}}}
	}
	return v
}

func testClaim(name, class string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "uid-claim"},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
}

// boundTo returns a claim that is bound to a volume.
func boundTo(claim *corev1.PersistentVolumeClaim, v string) *corev1.PersistentVolumeClaim {
	claim.Spec.VolumeName, claim.Status.Phase = v, corev1.ClaimBound
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, volume.AnnBindCompleted, "yes")
	return claim
}

func testClass(name, provisioner string, mode storagev1.VolumeBindingMode) *storagev1.StorageClass {
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner, VolumeBindingMode: &mode}
}

func withClaim(pod *corev1.Pod, claims ...string) *corev1.Pod {
	pod.UID = "uid-of-" + pod.UID
	for _, name := range claims {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
		}})
	}
	return pod
}

// storageWorld has three nodes with enough capacity, and classes of both binding modes.
func storageWorld() *world {
	w := newWorld()
	for _, name := range []string{"n1", "n2", "n3"} {
		w.nodes.Add(testNode(name, "4"))
	}
	w.classes.Add(testClass("now", "disks", storagev1.VolumeBindingImmediate))
	w.classes.Add(testClass("later", "disks", storagev1.VolumeBindingWaitForFirstConsumer))
	w.classes.Add(testClass("static", volume.NotSupportedProvisioner, storagev1.VolumeBindingWaitForFirstConsumer))
	return w
}

func TestWhatVolumesForbid(t *testing.T) {
	full := int32(1)
	for _, c := range []struct {
		name  string
		setup func(*world)
		node  string // the pod's node
		note  string // why it has no node
	}{
		{
			name:  "a claim that is not there",
			setup: func(*world) {},
			note:  `0/3 nodes are available: persistentvolumeclaim "data" not found. not found`,
		},
		{
			name:  "a claim that is not bound yet",
			setup: func(w *world) { w.claims.Add(testClaim("data", "now")) },
			note:  "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found",
		},
		{
			name: "a volume of one node",
			setup: func(w *world) {
				w.volumes.Add(testVolume("v", "1Gi", "now", "n2"))
				w.claims.Add(boundTo(testClaim("data", "now"), "v"))
			},
			node: "n2",
		},
		{
			name: "a volume of a node that is not there",
			setup: func(w *world) {
				w.volumes.Add(testVolume("v", "1Gi", "now", "n9"))
				w.claims.Add(boundTo(testClaim("data", "now"), "v"))
			},
			note: "0/3 nodes are available: 3 node(s) didn't match PersistentVolume's node affinity. preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.",
		},
		{
			name:  "a volume that is gone",
			setup: func(w *world) { w.claims.Add(boundTo(testClaim("data", "now"), "v")) },
			note:  `0/3 nodes are available: persistentvolume "v" not found. not found`,
		},
		{
			name: "a static class without a volume that is large enough",
			setup: func(w *world) {
				w.volumes.Add(testVolume("small", "1Mi", "static", "n1"))
				w.claims.Add(testClaim("data", "static"))
			},
			note: "0/3 nodes are available: 3 node(s) didn't find available persistent volumes to bind. preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.",
		},
		{
			name: "a volume of another zone",
			setup: func(w *world) {
				v := testVolume("v", "1Gi", "now", "")
				v.Labels = map[string]string{corev1.LabelTopologyZone: "b__c"}
				w.volumes.Add(v)
				w.claims.Add(boundTo(testClaim("data", "now"), "v"))
				for _, node := range w.nodes.Objects() {
					node := node.DeepCopy()
					node.Labels[corev1.LabelTopologyZone] = map[string]string{"n1": "a", "n2": "d", "n3": "c"}[node.Name]
					w.nodes.Modify(node)
				}
			},
			node: "n3",
		},
		{
			name: "a claim for one pod that has a pod",
			setup: func(w *world) {
				claim := boundTo(testClaim("data", "now"), "v")
				claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
				w.claims.Add(claim)
				w.volumes.Add(testVolume("v", "1Gi", "now", ""))
				w.pods.Add(withClaim(running("other", "100m", 100, "n1", 1), "data"))
			},
			note: "0/3 nodes are available: 3 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod. preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod.",
		},
		{
			name: "nodes that can attach no more",
			setup: func(w *world) {
				w.volumes.Add(testVolume("v", "1Gi", "now", ""))
				w.claims.Add(boundTo(testClaim("data", "now"), "v"))
				w.volumes.Add(testVolume("v2", "1Gi", "now", ""))
				w.claims.Add(boundTo(testClaim("more", "now"), "v2"))
				for _, name := range []string{"n1", "n3"} {
					w.drivers.Add(&storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{
						{Name: "disks", Allocatable: &storagev1.VolumeNodeResources{Count: &full}},
					}}})
				}
				w.pods.Add(withClaim(running("other", "100m", 100, "n1", 1), "more"))
				w.nodes.Delete(testNode("n2", "4"))
			},
			node: "n3",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := storageWorld()
				c.setup(w)
				w.pods.Add(withClaim(testPod("web", "1"), "data"))
				defer w.start(t, Options{})()
				time.Sleep(time.Second)
				if node := w.nodeOf(t, "web"); node != c.node {
					t.Errorf("on %q, want %q", node, c.node)
				}
				if log := strings.Join(w.eventLog(), "\n"); c.note != "" && log != "Warning FailedScheduling web: "+c.note {
					t.Errorf("events: %s", log)
				}
			})
		})
	}
}

// Pods that arrive at once never get the same volume, and each goes where its volume is.
func TestEachClaimThatWaitsForItsPodGetsAVolumeOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := storageWorld()
		for _, name := range []string{"a", "b", "c"} {
			claim := testClaim(name, "static")
			claim.UID = "uid-" + claim.UID + "-" + "x"
			w.claims.Add(claim)
			w.pods.Add(withClaim(testPod("pod-"+name, "1"), name))
		}
		w.volumes.Add(testVolume("v1", "1Gi", "static", "n1"))
		w.volumes.Add(testVolume("v2", "2Gi", "static", "n2"))
		defer w.start(t, Options{})()
		time.Sleep(time.Minute)
		var nodes []string
		for _, name := range []string{"a", "b", "c"} {
			nodes = append(nodes, w.nodeOf(t, "pod-"+name))
		}
		slices.Sort(nodes)
		if !slices.Equal(nodes, []string{"", "n1", "n2"}) {
			t.Errorf("nodes: %q; %q", nodes, w.eventLog())
		}
		w.volumes.Add(testVolume("v3", "1Gi", "static", "n3"))
		time.Sleep(time.Minute)
		for _, name := range []string{"a", "b", "c"} {
			if w.nodeOf(t, "pod-"+name) == "" {
				t.Errorf("pod-%s has no node", name)
			}
		}
	})
}

// A pod whose volume is being provisioned waits for it, keeps its capacity meanwhile, and does not delay others.
func TestAPodIsBoundWhenItsVolumeHasBeenMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := storageWorld()
		w.claims.Add(testClaim("data", "later"))
		w.pods.Add(withClaim(testPod("web", "4"), "data"))
		defer w.start(t, Options{Parallelism: 1})()
		time.Sleep(time.Second)
		node := w.selected("data")
		if node == "" || w.nodeOf(t, "web") != "" {
			t.Fatalf("selected %q, bound to %q", node, w.nodeOf(t, "web"))
		}
		for _, name := range []string{"x", "y"} {
			w.pods.Add(testPod(name, "4"))
		}
		time.Sleep(time.Second)
		if x, y := w.nodeOf(t, "x"), w.nodeOf(t, "y"); x == "" || y == "" || x == node || y == node {
			t.Errorf("others are on %q and %q, it on %q: %q", x, y, node, w.eventLog())
		}
		w.provision(t, "data")
		time.Sleep(time.Second)
		if got := w.nodeOf(t, "web"); got != node {
			t.Errorf("on %q, want %q", got, node)
		}
	})
}

// When the provisioner gives up a node, by removing the annotation, the scheduler chooses another one.
func TestAPodLooksElsewhereWhenItsVolumeCannotBeMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := storageWorld()
		fails := 1
		w.claimFault = func() error {
			if fails--; fails >= 0 {
				return errors.New("the server is away")
			}
			return nil
		}
		w.claims.Add(testClaim("data", "later"))
		w.pods.Add(withClaim(testPod("web", "1"), "data"))
		defer w.start(t, Options{})()
		time.Sleep(10 * time.Second)
		if w.selected("data") == "" {
			t.Fatalf("no node is selected after a failure: %q", w.eventLog())
		}
		w.mu.Lock()
		claim := w.claims.Objects()[0].DeepCopy()
		claim.Annotations = map[string]string{}
		w.claims.Modify(claim)
		w.mu.Unlock()
		time.Sleep(30 * time.Second)
		w.provision(t, "data")
		time.Sleep(time.Second)
		if w.nodeOf(t, "web") != w.selected("data") {
			t.Errorf("on %q, selected %q: %q", w.nodeOf(t, "web"), w.selected("data"), w.eventLog())
		}
	})
}
