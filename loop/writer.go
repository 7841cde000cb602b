package loop

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/millrace/millrace/informer"
)

// Writer writes objects of one kind, and notes its writes: the loop's next Sync of the same key begins when the caches
// show them. Sync must pass on its context. Outside of a Sync nothing is noted.
type Writer[T informer.Object] struct {
	resource informer.Resource[T]
	cache    *informer.Shared[T]
	manager  string

	mu      sync.Mutex
	applied map[Key]application // guarded by mu
}

// application is what was applied last, and the resource version after it.
type application struct {
	hash    uint64
	version string
}

// NewWriter returns a writer for the kind of a cache. manager is the field manager of Apply.
func NewWriter[T informer.Object](resource informer.Resource[T], cache *informer.Shared[T], manager string) *Writer[T] {
	return &Writer[T]{resource: resource, cache: cache, manager: manager, applied: map[Key]application{}}
}

// wrote notes a write for the Sync of the context.
func (w *Writer[T]) wrote(ctx context.Context, object T, err error) (T, error) {
	if err == nil {
		Wrote(ctx, w.cache, object.GetResourceVersion())
	}
	return object, err
}

func (w *Writer[T]) in(namespace string) informer.Resource[T] {
	return w.resource.InNamespace(namespace)
}

// Create creates an object.
func (w *Writer[T]) Create(ctx context.Context, object T) (T, error) {
	made, err := w.in(object.GetNamespace()).Create(ctx, object, metav1.CreateOptions{FieldManager: w.manager})
	return w.wrote(ctx, made, err)
}

// Update replaces an object. If it has a resource version, only that version is replaced.
func (w *Writer[T]) Update(ctx context.Context, object T) (T, error) {
	made, err := w.in(object.GetNamespace()).Update(ctx, object, metav1.UpdateOptions{FieldManager: w.manager})
	return w.wrote(ctx, made, err)
}

// UpdateStatus writes an object's status.
func (w *Writer[T]) UpdateStatus(ctx context.Context, object T) (T, error) {
	made, err := w.in(object.GetNamespace()).SubResource("status").Update(ctx, object, metav1.UpdateOptions{FieldManager: w.manager})
	return w.wrote(ctx, made, err)
}

// Patch changes an object.
func (w *Writer[T]) Patch(ctx context.Context, key Key, kind types.PatchType, patch []byte) (T, error) {
	made, err := w.in(key.Namespace).Patch(ctx, key.Name, kind, patch, metav1.PatchOptions{FieldManager: w.manager})
	return w.wrote(ctx, made, err)
}

// Delete deletes exactly this object, and no other of the same name.
func (w *Writer[T]) Delete(ctx context.Context, object T) error {
	uid := object.GetUID()
	options := metav1.DeleteOptions{}
	if uid != "" {
		options.Preconditions = &metav1.Preconditions{UID: &uid}
	}
	err := w.in(object.GetNamespace()).Delete(ctx, object.GetName(), options)
	if err == nil {
		Removed(ctx, w.cache, object)
	}
	return err
}

// Ensure creates or updates an object. change gets a copy of the cached object, or an empty object with its name, and
// modifies it. If it changes nothing, nothing is written.
func (w *Writer[T]) Ensure(ctx context.Context, key Key, change func(object T, exists bool) error) (T, error) {
	have, exists := w.cache.Lookup(key)
	want := reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T)
	if exists {
		want = have.DeepCopyObject().(T)
	} else {
		want.SetNamespace(key.Namespace)
		want.SetName(key.Name)
	}
	if err := change(want, exists); err != nil {
		return want, err
	}
	switch {
	case !exists:
		return w.Create(ctx, want)
	case equality.Semantic.DeepEqual(have, want):
		return have, nil
	}
	return w.Update(ctx, want)
}

// Apply sends an object by server-side apply: it sets the fields that are set in object, takes them over from other
// managers, and removes fields that it applied earlier and that are no longer set. The status is left out. Nothing is
// sent while the cache shows the version that an equal Apply has led to.
func (w *Writer[T]) Apply(ctx context.Context, object T) (T, error) {
	body, err := applyBody(object)
	if err != nil {
		return object, err
	}
	key, hash := informer.KeyOf(object), maphash.Bytes(hashSeed, body)
	have, exists := w.cache.Lookup(key)
	if exists && w.last(key) == (application{hash, have.GetResourceVersion()}) {
		return have, nil
	}
	force := true
	made, err := w.in(key.Namespace).Patch(ctx, key.Name, types.ApplyPatchType, body,
		metav1.PatchOptions{FieldManager: w.manager, Force: &force})
	if err == nil {
		w.remember(key, application{hash, made.GetResourceVersion()})
	}
	return w.wrote(ctx, made, err)
}

var hashSeed = maphash.MakeSeed()

func (w *Writer[T]) last(key Key) application {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.applied[key]
}

// maxApplied limits how many applications are remembered. A forgotten one is sent again.
const maxApplied = 1 << 16

func (w *Writer[T]) remember(key Key, a application) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.applied) >= maxApplied {
		clear(w.applied)
	}
	w.applied[key] = a
}

// applyBody encodes an object for server-side apply: with its kind, and without the fields that only the server sets.
func applyBody[T informer.Object](object T) ([]byte, error) {
	kind, err := kindOfObject(object)
	if err != nil {
		return nil, err
	}
	encoded, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", informer.KeyOf(object), err)
	}
	var tree map[string]any
	if err := json.Unmarshal(encoded, &tree); err != nil {
		return nil, fmt.Errorf("encode %s: %w", informer.KeyOf(object), err)
	}
	tree["apiVersion"], tree["kind"] = kind.ToAPIVersionAndKind()
	delete(tree, "status")
	if meta, ok := tree["metadata"].(map[string]any); ok {
		for _, field := range []string{"creationTimestamp", "managedFields", "resourceVersion", "uid", "generation"} {
			delete(meta, field)
		}
	}
	return json.Marshal(tree)
}

// kindOfObject returns an object's kind: from the object itself, or else from client-go's scheme.
func kindOfObject(object informer.Object) (schema.GroupVersionKind, error) {
	if kind := object.GetObjectKind().GroupVersionKind(); kind.Kind != "" {
		return kind, nil
	}
	kinds, _, err := scheme.Scheme.ObjectKinds(object)
	if err != nil {
		return schema.GroupVersionKind{}, fmt.Errorf("the kind of %s is not set: %w", informer.KeyOf(object), err)
	}
	return kinds[0], nil
}
