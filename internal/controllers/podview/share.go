package podview

import (
	"maps"
	"reflect"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// pool lets the pods of one controller share what comes from their template: labels, finalizers, ports, tolerations,
// and the values that owner references point to. That is about half of a view.
type pool struct {
	mu     sync.Mutex // guards models
	models map[types.UID]*Pod
}

// maxModels limits the pool. Clearing it only costs a little memory.
const maxModels = 4096

// share is a transformation for informers.
func (po *pool) share(p *Pod) (*Pod, error) {
	uid := p.ControllerUID()
	if uid == "" {
		return p, nil
	}
	po.mu.Lock()
	model := po.models[uid]
	if model == nil {
		if po.models == nil || len(po.models) >= maxModels {
			po.models = map[types.UID]*Pod{}
		}
		// Only the shared parts: a model must not keep a whole pod alive.
		po.models[uid] = &Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Labels: p.Labels, OwnerReferences: slices.Clone(p.OwnerReferences), Finalizers: p.Finalizers},
			Ports:      p.Ports, Tolerations: p.Tolerations, Secrets: p.Secrets,
		}
	}
	po.mu.Unlock()
	if model == nil {
		return p, nil
	}
	p.Namespace = model.Namespace
	if maps.Equal(p.Labels, model.Labels) {
		p.Labels = model.Labels
	}
	if slices.Equal(p.Finalizers, model.Finalizers) {
		p.Finalizers = model.Finalizers
	}
	if slices.Equal(p.Ports, model.Ports) {
		p.Ports = model.Ports
	}
	if slices.Equal(p.Secrets, model.Secrets) {
		p.Secrets = model.Secrets
	}
	p.OwnerReferences = shareOwners(p.OwnerReferences, model.OwnerReferences)
	if reflect.DeepEqual(p.Tolerations, model.Tolerations) {
		p.Tolerations = model.Tolerations
	}
	return p, nil
}

// shareOwners shares the values that references point to, in a new slice: an informer writes into the slices of an
// object that it has just received, and the other slice may already be read as part of another object.
func shareOwners(own, model []metav1.OwnerReference) []metav1.OwnerReference {
	if !reflect.DeepEqual(own, model) {
		return own
	}
	return slices.Clone(model)
}
