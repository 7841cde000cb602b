package policies

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/server/admission/attributes"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/watchcache"
)

// params finds the parameters of policies, which may be objects of any kind. None is older than what was acknowledged.
type params struct {
	registry *registry.Registry
	shared   bool
	faces    atomic.Pointer[faces]

	mu      sync.RWMutex // guards decoded
	decoded map[decodedKey]decodedParam
}

// faces are what is served, by kind.
type faces struct {
	version int
	byKind  map[schema.GroupVersionKind]*resource.Face
}

type decodedKey struct {
	face *resource.Face
	key  string
}

type decodedParam struct {
	revision store.Revision
	object   runtime.Object
}

// mostParams bounds how many parameters are kept decoded.
const mostParams = 1024

func (p *params) face(k *admissionv1.ParamKind) (*resource.Face, error) {
	gv, err := schema.ParseGroupVersion(k.APIVersion)
	if err != nil {
		return nil, fmt.Errorf("failed to parse paramKind APIVersion: %w", err)
	}
	served := p.registry.Catalogue
	version := served.Version()
	f := p.faces.Load()
	if f == nil || f.version != version {
		f = &faces{version, map[schema.GroupVersionKind]*resource.Face{}}
		for _, k := range served.Kinds() {
			for _, face := range k.Faces {
				if !k.Unstored() {
					f.byKind[face.GroupVersionKind] = face
				}
			}
		}
		p.faces.Store(f)
	}
	if found := f.byKind[gv.WithKind(k.Kind)]; found != nil {
		return found, nil
	}
	return nil, fmt.Errorf("failed to find resource referenced by paramKind: '%v'", gv.WithKind(k.Kind))
}

var (
	errClusterScoped = errors.New("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
	errNoNamespace   = errors.New("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")
	errNoParams      = errors.New("no params found for policy binding with `Deny` parameterNotFoundAction")
)

// of are the parameters with which a binding lets its policy look at a request: one that is nil if it uses none.
func (p *params) of(r *attributes.Request, face *resource.Face, ref *admissionv1.ParamRef) ([]runtime.Object, error) {
	if face == nil || ref == nil {
		return []runtime.Object{nil}, nil
	}
	namespace := ref.Namespace
	switch {
	case !face.Of.Namespaced && namespace != "":
		return nil, errClusterScoped
	case face.Of.Namespaced && namespace == "":
		if namespace = r.Within; namespace == "" {
			return nil, errNoNamespace
		}
	}
	storage, err := p.registry.Storage(face.Of)
	if err != nil {
		return nil, err
	}
	found, err := p.find(r.Context(), storage, namespace, ref)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 && ref.ParameterNotFoundAction != nil && *ref.ParameterNotFoundAction == admissionv1.DenyAction {
		return nil, errNoParams
	}
	out := make([]runtime.Object, 0, len(found))
	for _, o := range found {
		made, err := p.decode(r.Context(), storage, face, o)
		if err != nil {
			return nil, err
		}
		out = append(out, made)
	}
	return out, nil
}

// find finds the stored parameters.
func (p *params) find(ctx context.Context, s *registry.Storage, namespace string, ref *admissionv1.ParamRef) ([]*watchcache.Object, error) {
	if ref.Selector == nil {
		o, err := attributes.Read(ctx, p.registry, s, namespace, ref.Name, p.shared)
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return []*watchcache.Object{o}, err
	}
	selector, err := metav1.LabelSelectorAsSelector(ref.Selector)
	if err != nil {
		return nil, err
	}
	list, err := s.List(ctx, registry.ListQuery{Selection: registry.Select(s.Kind().Faces[0], namespace, "", selector, nil)})
	if err != nil {
		return nil, err
	}
	return list.Objects, nil
}

// decode shows a parameter as its face.
func (p *params) decode(ctx context.Context, s *registry.Storage, face *resource.Face, o *watchcache.Object) (runtime.Object, error) {
	at := decodedKey{face, o.Key}
	p.mu.RLock()
	known, ok := p.decoded[at]
	p.mu.RUnlock()
	if ok && known.revision == o.Revision {
		return known.object, nil
	}
	made, err := s.Kind().Decode(ctx, o.Value(), o.Revision.String())
	if err != nil {
		return nil, err
	}
	var shown runtime.Object = made
	if face.From != nil {
		shown = face.From(made)
	}
	shown.GetObjectKind().SetGroupVersionKind(face.GroupVersionKind)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.decoded == nil || len(p.decoded) >= mostParams {
		p.decoded = map[decodedKey]decodedParam{}
	}
	p.decoded[at] = decodedParam{o.Revision, shown}
	return shown, nil
}
