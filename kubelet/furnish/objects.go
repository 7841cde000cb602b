package furnish

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// ErrAlone means that something needs an API server, and there is none.
var ErrAlone = errors.New("this kubelet runs without an API server")

// objects reads config maps and secrets, and keeps them for a while: pods of one deployment ask for the same. While the
// server is away the last content is good.
type objects struct {
	kube  kubernetes.Interface
	fresh time.Duration

	mu    sync.Mutex // guards found
	found map[object]entry
}

type object struct{ kind, namespace, name string }

type entry struct {
	data map[string][]byte // nil: there is none
	at   time.Time
}

func newObjects(kube kubernetes.Interface, fresh time.Duration) *objects {
	return &objects{kube: kube, fresh: fresh, found: map[object]entry{}}
}

func (o *objects) configMap(ctx context.Context, namespace, name string) (map[string][]byte, error) {
	return o.get(ctx, object{"configmap", namespace, name}, func(ctx context.Context) (map[string][]byte, error) {
		c, err := o.kube.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		data := make(map[string][]byte, len(c.Data)+len(c.BinaryData))
		for k, v := range c.Data {
			data[k] = []byte(v)
		}
		for k, v := range c.BinaryData {
			data[k] = v
		}
		return data, nil
	})
}

func (o *objects) secret(ctx context.Context, namespace, name string) (map[string][]byte, error) {
	return o.get(ctx, object{"secret", namespace, name}, func(ctx context.Context) (map[string][]byte, error) {
		s, err := o.kube.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		if s.Data == nil {
			return map[string][]byte{}, nil
		}
		return s.Data, nil
	})
}

// get is what is kept if it is fresh, what the server has if it answers, and what is kept if it does not.
func (o *objects) get(ctx context.Context, key object, read func(context.Context) (map[string][]byte, error)) (map[string][]byte, error) {
	if o.kube == nil {
		return nil, fmt.Errorf("%s %q: %w", key.kind, key.name, ErrAlone)
	}
	o.mu.Lock()
	kept, ok := o.found[key]
	o.mu.Unlock()
	if ok && time.Since(kept.at) < o.fresh {
		return kept.data, nil
	}
	data, err := read(ctx)
	switch {
	case apierrors.IsNotFound(err):
		o.drop(key)
		return nil, err
	case err != nil && ok:
		return kept.data, nil
	case err != nil:
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.expire()
	o.found[key] = entry{data, time.Now()}
	return data, nil
}

func (o *objects) drop(key object) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.found, key)
}

// expire drops what nobody has asked for in a long time.
func (o *objects) expire() {
	for key, e := range o.found {
		if time.Since(e.at) > 20*o.fresh {
			delete(o.found, key)
		}
	}
}

// claim is the volume behind a claim.
func (o *objects) claim(ctx context.Context, namespace, name string) (*corev1.PersistentVolume, error) {
	if o.kube == nil {
		return nil, ErrAlone
	}
	c, err := o.kube.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if c.Status.Phase != corev1.ClaimBound || c.Spec.VolumeName == "" {
		return nil, fmt.Errorf("claim %q is not bound", name)
	}
	return o.kube.CoreV1().PersistentVolumes().Get(ctx, c.Spec.VolumeName, metav1.GetOptions{})
}
