package scheduler

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/informer/informertest"
	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
)

var podResource = schema.GroupResource{Resource: "pods"}

// world is a cluster in memory: an API server's objects, and the faults to inject.
type world struct {
	pods       *informertest.Source[*corev1.Pod]
	nodes      *informertest.Source[*corev1.Node]
	namespaces *informertest.Source[*corev1.Namespace]
	services   *informertest.Source[*corev1.Service]

	mu     sync.Mutex
	events []string // guarded by mu
	binds  int      // guarded by mu: the number of requested bindings
	// fault, if set, returns the fault of a binding.
	fault func() fault
	// overfull is called for each node that got more pods than fit.
	overfull func(node string, pods []string)
	// preemptFault, if set, returns the error of a preemption.
	preemptFault func() error
	// specialFault, if set, returns the error of a request for an extended resource claim: create, change, tell or
	// delete.
	specialFault func(request string) error
	made         int // guarded by mu: the number of generated names
	// claimFault, if set, returns the error of a write of a claim.
	claimFault func() error
	budgets    *informertest.Source[*policyv1.PodDisruptionBudget]

	claims  *informertest.Source[*corev1.PersistentVolumeClaim]
	volumes *informertest.Source[*corev1.PersistentVolume]
	classes *informertest.Source[*storagev1.StorageClass]
	drivers *informertest.Source[*storagev1.CSINode]

	resourceClaims *informertest.Source[*resourcev1.ResourceClaim]
	slices         *informertest.Source[*resourcev1.ResourceSlice]
	deviceClasses  *informertest.Source[*resourcev1.DeviceClass]
}

// fault is the fault of a binding. The zero value is none.
type fault struct {
	answer error         // instead of the real answer
	never  bool          // the binding is not carried out
	after  time.Duration // it is carried out so long after the answer
	delay  time.Duration // the answer is delayed by this
}

func newWorld() *world {
	return &world{
		pods:       informertest.NewSource[*corev1.Pod](),
		nodes:      informertest.NewSource[*corev1.Node](),
		namespaces: informertest.NewSource[*corev1.Namespace](),
		services:   informertest.NewSource[*corev1.Service](),
		budgets:    informertest.NewSource[*policyv1.PodDisruptionBudget](),
		claims:     informertest.NewSource[*corev1.PersistentVolumeClaim](),
		volumes:    informertest.NewSource[*corev1.PersistentVolume](),
		classes:    informertest.NewSource[*storagev1.StorageClass](),
		drivers:    informertest.NewSource[*storagev1.CSINode](),

		resourceClaims: informertest.NewSource[*resourcev1.ResourceClaim](),
		slices:         informertest.NewSource[*resourcev1.ResourceSlice](),
		deviceClasses:  informertest.NewSource[*resourcev1.DeviceClass](),
	}
}

func (w *world) Eventf(object runtime.Object, kind, reason, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ref := object.(*corev1.ObjectReference)
	w.events = append(w.events, fmt.Sprintf("%s %s %s: %s", kind, reason, ref.Name, fmt.Sprintf(format, args...)))
}

func (w *world) eventLog() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.events...)
}

func (w *world) find(key cluster.Key) (*corev1.Pod, error) {
	for _, pod := range w.pods.Objects() {
		if pod.Name == key.Name && pod.Namespace == key.Namespace {
			return pod, nil
		}
	}
	return nil, apierrors.NewNotFound(podResource, key.Name)
}

func (w *world) Bind(ctx context.Context, pod *cluster.Pod, node string) error {
	w.mu.Lock()
	w.binds++
	var f fault
	if w.fault != nil {
		f = w.fault()
	}
	w.mu.Unlock()

	var err error
	switch {
	case f.never:
	case f.after > 0:
		time.AfterFunc(f.after, func() { _ = w.carryOut(pod, node) })
	default:
		err = w.carryOut(pod, node)
	}
	if f.delay > 0 {
		select {
		case <-time.After(f.delay):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if f.answer != nil {
		return f.answer
	}
	return err
}

func (w *world) carryOut(pod *cluster.Pod, node string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bindLocked(pod, node)
}

func (w *world) bindLocked(pod *cluster.Pod, node string) error {
	object, err := w.find(pod.Key)
	switch {
	case err != nil:
		return err
	case object.UID != pod.UID:
		return apierrors.NewConflict(podResource, pod.Key.Name, fmt.Errorf("uid mismatch"))
	case object.Spec.NodeName != "":
		return apierrors.NewConflict(podResource, pod.Key.Name, fmt.Errorf("already assigned"))
	case object.DeletionTimestamp != nil:
		return apierrors.NewConflict(podResource, pod.Key.Name, fmt.Errorf("is being deleted"))
	}
	object.Spec.NodeName = node
	setCondition(object, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue})
	w.pods.Modify(object)
	w.checkLocked(node)
	return nil
}

// checkLocked reports a node whose pods request more cpu than it has.
func (w *world) checkLocked(name string) {
	if w.overfull == nil {
		return
	}
	var used, have int64
	var pods []string
	for _, pod := range w.pods.Objects() {
		if pod.Spec.NodeName == name {
			used += pod.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
			pods = append(pods, pod.Name)
		}
	}
	for _, node := range w.nodes.Objects() {
		if node.Name == name {
			have = node.Status.Allocatable.Cpu().MilliValue()
		}
	}
	if have > 0 && used > have {
		w.overfull(name, pods)
	}
}

func (w *world) Read(_ context.Context, key cluster.Key) (*corev1.Pod, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.find(key)
}

func (w *world) Report(_ context.Context, pod *cluster.Pod, status Status) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	object, err := w.find(pod.Key)
	if err != nil {
		return err
	}
	if object.UID != pod.UID || object.ResourceVersion != pod.ResourceVersion {
		return apierrors.NewConflict(podResource, pod.Key.Name, fmt.Errorf("has changed"))
	}
	if status.Condition != nil {
		setCondition(object, *status.Condition)
	}
	if status.NominatedNode != nil {
		object.Status.NominatedNodeName = *status.NominatedNode
	}
	w.pods.Modify(object)
	return nil
}

// Preempt marks the victim as terminating; it exists until the test removes it.
func (w *world) Preempt(_ context.Context, victim *cluster.Pod, condition corev1.PodCondition) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	object, err := w.find(victim.Key)
	if err != nil {
		return err
	}
	if w.preemptFault != nil {
		if err := w.preemptFault(); err != nil {
			return err
		}
	}
	setCondition(object, condition)
	now := metav1.Now()
	object.DeletionTimestamp = &now
	w.pods.Modify(object)
	return nil
}

func setCondition(pod *corev1.Pod, condition corev1.PodCondition) {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == condition.Type {
			pod.Status.Conditions[i] = condition
			return
		}
	}
	pod.Status.Conditions = append(pod.Status.Conditions, condition)
}

// start runs informers and a scheduler; stop ends them and waits.
func (w *world) start(t *testing.T, options Options) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	options.Watched = Watched{
		Pods:       informer.New(w.pods, informer.Options[*corev1.Pod]{}),
		Nodes:      informer.New(w.nodes, informer.Options[*corev1.Node]{}),
		Namespaces: informer.New(w.namespaces, informer.Options[*corev1.Namespace]{}),
		Services:   informer.New(w.services, informer.Options[*corev1.Service]{}),
		Budgets:    informer.New(w.budgets, informer.Options[*policyv1.PodDisruptionBudget]{}),
		Storage: Storage{
			Claims:  informer.New(w.claims, informer.Options[*corev1.PersistentVolumeClaim]{}),
			Volumes: informer.New(w.volumes, informer.Options[*corev1.PersistentVolume]{}),
			Classes: informer.New(w.classes, informer.Options[*storagev1.StorageClass]{}),
			Nodes:   informer.New(w.drivers, informer.Options[*storagev1.CSINode]{}),
		},
	}
	options.Watched.Devices = Devices{
		Claims:  informer.New(w.resourceClaims, informer.Options[*resourcev1.ResourceClaim]{}),
		Slices:  informer.New(w.slices, informer.Options[*resourcev1.ResourceSlice]{}),
		Classes: informer.New(w.deviceClasses, informer.Options[*resourcev1.DeviceClass]{}),
	}
	options.API, options.Recorder, options.Writer = w, w, w
	for _, run := range []func(context.Context) error{
		options.Watched.Pods.Run, options.Watched.Nodes.Run, options.Watched.Namespaces.Run, options.Watched.Services.Run, options.Watched.Budgets.Run,
		options.Watched.Storage.Claims.Run, options.Watched.Storage.Volumes.Run, options.Watched.Storage.Classes.Run, options.Watched.Storage.Nodes.Run,
		options.Watched.Devices.Claims.Run, options.Watched.Devices.Slices.Run, options.Watched.Devices.Classes.Run,
		New(options).Run,
	} {
		running.Go(func() {
			if err := run(ctx); err != nil && ctx.Err() == nil {
				t.Errorf("run: %v", err)
			}
		})
	}
	return func() {
		cancel()
		running.Wait()
	}
}

func (w *world) nodeOf(t *testing.T, name string) string {
	t.Helper()
	pod, err := w.Read(t.Context(), cluster.Key{Namespace: "default", Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return pod.Spec.NodeName
}

func testNode(name, cpu string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse(cpu),
			corev1.ResourceMemory: resource.MustParse("32Gi"),
			corev1.ResourcePods:   resource.MustParse("110"),
		}},
	}
}

func testPod(name, cpu string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "c", Image: "app:1",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse(cpu),
			}},
		}}},
	}
}

func keyOf(name string) cluster.Key { return cluster.Key{Namespace: "default", Name: name} }
