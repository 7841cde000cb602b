package bootstrap

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/flowcontrol"
)

// flowManager is the field manager of these objects.
const flowManager = "api-priority-and-fairness-config-producer-v1"

// Flows maintains the objects of flowcontrol.apiserver.k8s.io.
type Flows struct {
	Registry *registry.Registry
	Logger   *slog.Logger
	// Every is how often the objects are checked: a minute by default.
	Every time.Duration
}

// Run maintains the objects until the context ends.
func (f *Flows) Run(ctx context.Context) error {
	return repeat(ctx, cmp.Or(f.Every, checkInterval), f.Ensure, func(err error) { f.Logger.Warn("flow control objects could not be ensured", "error", err) })
}

// Ensure creates missing objects, updates those that were not changed on purpose, and deletes those that are no longer
// suggested.
func (f *Flows) Ensure(ctx context.Context) error {
	mandatory, suggested := flowcontrol.Mandatory(), flowcontrol.Suggested()
	levels, err := f.storage("prioritylevelconfigurations")
	if err != nil {
		return err
	}
	schemas, err := f.storage("flowschemas")
	if err != nil {
		return err
	}
	return errors.Join(
		ensureAll(ctx, levels, suggested.Levels, mandatory.Levels, sameLevel, func(o, want *flowcontrolv1.PriorityLevelConfiguration) { o.Spec = want.Spec }),
		ensureAll(ctx, schemas, suggested.Schemas, mandatory.Schemas, sameSchema, func(o, want *flowcontrolv1.FlowSchema) { o.Spec = want.Spec }),
	)
}

func (f *Flows) storage(of string) (*registry.Storage, error) {
	gr := flowcontrolv1.Resource(of)
	k, ok := f.Registry.Catalogue.Kind(gr)
	if !ok {
		return nil, fmt.Errorf("%v are not served", gr)
	}
	return f.Registry.Storage(k)
}

func sameSchema(o, want *flowcontrolv1.FlowSchema) bool {
	return equality.Semantic.DeepEqual(o.Spec, want.Spec)
}

// sameLevel compares priority levels. The lendable percentage of the exempt level is left to the cluster.
func sameLevel(o, want *flowcontrolv1.PriorityLevelConfiguration) bool {
	have := o.Spec
	if have.Exempt != nil && want.Spec.Exempt != nil {
		have.Exempt = want.Spec.Exempt
	}
	return equality.Semantic.DeepEqual(have, want.Spec)
}

// ensureAll handles objects concurrently, so that they share the store's syncs.
func ensureAll[P resource.Object](ctx context.Context, s *registry.Storage, suggested, mandatory []P, same func(o, want P) bool, replace func(o, want P)) error {
	all := append(append([]P(nil), suggested...), mandatory...)
	errs := make([]error, len(all))
	known := map[string]bool{}
	var wg sync.WaitGroup
	for i, want := range all {
		known[want.GetName()] = true
		wg.Go(func() { errs[i] = ensure(ctx, s, want, i >= len(suggested), same, replace) })
	}
	wg.Wait()
	return errors.Join(errors.Join(errs...), removeUnknown(ctx, s, known))
}

func ensure[P resource.Object](ctx context.Context, s *registry.Storage, want P, mandatory bool, same func(o, want P) bool, replace func(o, want P)) error {
	write := registry.WriteOptions{Manager: flowManager}
	name := want.GetName()
	if _, err := s.Get(ctx, "", name, registry.Freshness{Any: true}); apierrors.IsNotFound(err) {
		if _, err = s.Create(ctx, "", want, write); err == nil {
			return nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create %s %s: %w", s.Kind().Resource, name, err)
		}
	}
	_, _, err := s.Update(ctx, "", name, func(_ context.Context, old resource.Object) (resource.Object, error) {
		o := old.DeepCopyObject().(P)
		renew := mandatory || mayUpdate(o)
		if renew && !same(o, want) {
			replace(o, want)
		}
		if now, err := strconv.ParseBool(o.GetAnnotations()[flowcontrolv1.AutoUpdateAnnotationKey]); err != nil || now != renew {
			annotate(o, strconv.FormatBool(renew))
		}
		return o, nil
	}, registry.UpdateOptions{WriteOptions: write})
	if err != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("update %s %s: %w", s.Kind().Resource, name, err)
	}
	return nil
}

// mayUpdate reports whether a suggested object may be updated: its annotation says so, or its spec never changed.
func mayUpdate(o metav1.Object) bool {
	if says, err := strconv.ParseBool(o.GetAnnotations()[flowcontrolv1.AutoUpdateAnnotationKey]); err == nil {
		return says
	}
	return o.GetGeneration() == 1
}

func annotate(o metav1.Object, value string) {
	all := o.GetAnnotations()
	if all == nil {
		all = map[string]string{}
	}
	all[flowcontrolv1.AutoUpdateAnnotationKey] = value
	o.SetAnnotations(all)
}

// removeUnknown deletes objects that used to be suggested, and that were not changed on purpose.
func removeUnknown(ctx context.Context, s *registry.Storage, known map[string]bool) error {
	list, err := s.List(ctx, registry.ListQuery{Freshness: registry.Freshness{Any: true}})
	if err != nil {
		return err
	}
	for _, o := range list.Objects {
		if known[o.Name()] {
			continue
		}
		decoded, err := s.Kind().Decode(ctx, o.Value(), o.Revision.String())
		if err != nil {
			return err
		}
		if says, err := strconv.ParseBool(decoded.GetAnnotations()[flowcontrolv1.AutoUpdateAnnotationKey]); err != nil || !says {
			continue
		}
		if _, err := s.Delete(ctx, "", o.Name(), metav1.DeleteOptions{}, registry.WriteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete %s %s: %w", s.Kind().Resource, o.Name(), err)
		}
	}
	return nil
}
