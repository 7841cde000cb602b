package furnish

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/informer/delta"
	"github.com/millrace/millrace/internal/kubelet/worker"
)

// ErrNoServer means that something needs an API server, and this kubelet is standalone.
var ErrNoServer = errors.New("this kubelet runs without an API server")

// firstLook is how long a pod waits for the first state of an object.
const firstLook = 10 * time.Second

// objects has the config maps, secrets, trust bundles and requests for certificates that pods of this node use. Each is watched on its own, once
// for all pods, while a pod uses it. So no other objects are read, and changes arrive at once. While the server cannot
// be reached, the last content is used.
type objects struct {
	kube      kubernetes.Interface
	node      string
	streaming bool
	log       *slog.Logger
	changed   func(worker.Key) // called for each pod that uses the changed object

	watches sync.WaitGroup
	begun   chan struct{} // closed when Run has set the context for watches
	once    sync.Once
	running context.Context

	mu    sync.Mutex // guards known
	known map[object]*entry
}

type object struct{ kind, namespace, name string }

// user is a pod that uses an object.
type user struct {
	uid string
	key worker.Key
}

func userOf(pod *corev1.Pod) user {
	return user{string(pod.UID), worker.Key{Namespace: pod.Namespace, Name: pod.Name}}
}

// entry is a watched object. The fields below the line are guarded by the mutex of objects.
type entry struct {
	seen chan struct{} // closed when the first state is known
	stop context.CancelFunc
	// ---
	users map[user]bool
	data  map[string][]byte // nil if the object does not exist
	ready bool
}

func newObjects(o *Options) *objects {
	return &objects{kube: o.Kube, node: o.Node, streaming: o.Streaming, log: o.Logger, changed: o.Changed, begun: make(chan struct{}), known: map[object]*entry{}}
}

// run allows watches until ctx ends.
func (o *objects) run(ctx context.Context) error {
	o.once.Do(func() {
		o.running = ctx
		close(o.begun)
	})
	<-ctx.Done()
	o.mu.Lock() // no watch begins after this
	o.known = nil
	o.mu.Unlock()
	o.watches.Wait()
	return nil
}

func (o *objects) configMap(ctx context.Context, pod *corev1.Pod, name string) (map[string][]byte, error) {
	return o.get(ctx, pod, object{"configmap", pod.Namespace, name})
}

func (o *objects) secret(ctx context.Context, pod *corev1.Pod, name string) (map[string][]byte, error) {
	return o.get(ctx, pod, object{"secret", pod.Namespace, name})
}

// get returns an object's current content. From then on the pod is reported when the content changes.
func (o *objects) get(ctx context.Context, pod *corev1.Pod, key object) (map[string][]byte, error) {
	if o.kube == nil {
		return nil, fmt.Errorf("%s %q: %w", key.kind, key.name, ErrNoServer)
	}
	ctx, cancel := context.WithTimeout(ctx, firstLook)
	defer cancel()
	select {
	case <-o.begun:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	e := o.use(userOf(pod), key)
	if e == nil {
		return nil, context.Canceled
	}
	select {
	case <-e.seen:
	case <-ctx.Done():
		return nil, fmt.Errorf("%s %q is not known yet: %w", key.kind, key.name, context.Cause(ctx))
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if e.data == nil {
		return nil, apierrors.NewNotFound(corev1.Resource(key.kind+"s"), key.name)
	}
	return e.data, nil
}

// use adds a user to an object, and starts its watch for the first user. It returns nil if the kubelet is stopping.
func (o *objects) use(by user, key object) *entry {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.known == nil {
		return nil
	}
	e := o.known[key]
	if e == nil {
		ctx, stop := context.WithCancel(o.running)
		e = &entry{seen: make(chan struct{}), stop: stop, users: map[user]bool{}}
		o.known[key] = e
		o.watches.Go(func() { o.watch(ctx, key, e) })
	}
	e.users[by] = true
	return e
}

// release removes a pod from all objects, and ends the watches of those without users.
func (o *objects) release(uid string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for key := range o.known {
		o.dropLocked(uid, key)
	}
}

// drop removes a pod from one object.
func (o *objects) drop(uid string, key object) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.dropLocked(uid, key)
}

func (o *objects) dropLocked(uid string, key object) {
	e := o.known[key]
	if e == nil {
		return
	}
	for u := range e.users {
		if u.uid == uid {
			delete(e.users, u)
		}
	}
	if len(e.users) == 0 {
		e.stop()
		delete(o.known, key)
	}
}

// watch watches one object until ctx ends.
func (o *objects) watch(ctx context.Context, key object, e *entry) {
	var err error
	if key.kind == bundleKind || key.kind == signerKind {
		err = o.watchBundles(ctx, key, e)
	} else if key.kind == podRequestKind {
		err = o.watchPodRequest(ctx, key, e)
	} else if key.kind == "secret" {
		err = follow(ctx, o, key, e, informer.For(o.kube.CoreV1().Secrets(key.namespace)), func(s *corev1.Secret) map[string][]byte { return contentOf(nil, s.Data) })
	} else {
		err = follow(ctx, o, key, e, informer.For(o.kube.CoreV1().ConfigMaps(key.namespace)), func(c *corev1.ConfigMap) map[string][]byte { return contentOf(c.Data, c.BinaryData) })
	}
	if err != nil && ctx.Err() == nil {
		o.log.Error("object cannot be watched", "kind", key.kind, "namespace", key.namespace, "name", key.name, "err", err)
	}
}

func follow[T informer.Object](ctx context.Context, o *objects, key object, e *entry, source informer.Source[T], content func(T) map[string][]byte) error {
	store := delta.NewUndeltaStore(func(all []T) {
		var data map[string][]byte
		for _, one := range all {
			if one.GetName() == key.name {
				data = content(one)
			}
		}
		o.take(e, data)
	}, informer.StoreOptions[T]{})
	return informer.NewReflector(source, store, informer.Options[T]{
		Name: "kubelet", FieldSelector: "metadata.name=" + key.name, DropManagedFields: true, DisableStreaming: !o.streaming, Logger: o.log,
	}).Run(ctx)
}

func contentOf(text map[string]string, binary map[string][]byte) map[string][]byte {
	data := make(map[string][]byte, len(text)+len(binary))
	for k, v := range text {
		data[k] = []byte(v)
	}
	for k, v := range binary {
		data[k] = v
	}
	return data
}

// take stores an object's new content, and reports the pods that use it.
func (o *objects) take(e *entry, data map[string][]byte) {
	o.mu.Lock()
	e.data = data
	first := !e.ready
	if e.ready = true; first {
		close(e.seen)
	}
	var users []worker.Key
	if !first {
		for u := range e.users {
			users = append(users, u.key)
		}
	}
	o.mu.Unlock()
	for _, key := range users {
		o.changed(key)
	}
}

// claim returns a claim and its volume.
func (o *objects) claim(ctx context.Context, namespace, name string) (*corev1.PersistentVolumeClaim, *corev1.PersistentVolume, error) {
	if o.kube == nil {
		return nil, nil, ErrNoServer
	}
	c, err := o.kube.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, nil, err
	}
	if c.Status.Phase != corev1.ClaimBound || c.Spec.VolumeName == "" {
		return nil, nil, fmt.Errorf("claim %q is not bound", name)
	}
	pv, err := o.kube.CoreV1().PersistentVolumes().Get(ctx, c.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		return nil, nil, err
	}
	// Whoever makes a claim names its volume; only the volume says whose it is.
	if r := pv.Spec.ClaimRef; r == nil || r.Namespace != c.Namespace || r.Name != c.Name || r.UID != c.UID {
		return nil, nil, fmt.Errorf("volume %q is not bound to claim %q", pv.Name, name)
	}
	return c, pv, nil
}
