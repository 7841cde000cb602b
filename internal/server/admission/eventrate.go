package admission

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/lru"

	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
)

// eventLimit bounds the events of a server, or of each namespace, user, or source and object.
type eventLimit struct {
	Type      string `json:"type"`
	QPS       int32  `json:"qps"`
	Burst     int32  `json:"burst"`
	CacheSize int32  `json:"cacheSize"`

	mu   sync.Mutex // guards what follows
	keys *lru.Cache
}

// kinds of limits, in the order in which errors list them.
var eventLimits = []string{"Server", "Namespace", "User", "SourceAndObject"}

const usualCacheSize = 4096

// eventRateLimit refuses events when there are too many.
func eventRateLimit(all Configuration) (registry.Admission, error) {
	var config struct {
		Limits []*eventLimit `json:"limits"`
	}
	if err := all.of("EventRateLimit", &config); err != nil {
		return registry.Admission{}, err
	}
	path := field.NewPath("limits")
	if len(config.Limits) == 0 {
		return registry.Admission{}, field.Invalid(path, config.Limits, "must not be empty")
	}
	var errs field.ErrorList
	for i, l := range config.Limits {
		errs = append(errs, l.check(path.Index(i))...)
		size := int(l.CacheSize)
		if size <= 0 {
			size = usualCacheSize
		}
		l.keys = lru.New(size)
	}
	if len(errs) > 0 {
		return registry.Admission{}, errs.ToAggregate()
	}
	return validating("EventRateLimit", func(ctx context.Context, c *registry.Change) error {
		event, ok := c.Object.(*corev1.Event)
		if !ok || c.DryRun || c.Operation != registry.Create && c.Operation != registry.Update {
			return nil
		}
		var refusals []error
		for _, l := range config.Limits {
			if err := l.accept(ctx, event); err != nil {
				refusals = append(refusals, err)
			}
		}
		if err := utilerrors.NewAggregate(refusals); err != nil {
			return apierrors.NewTooManyRequestsError(err.Error())
		}
		return nil
	}), nil
}

func (l *eventLimit) check(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if !slices.Contains(eventLimits, l.Type) {
		errs = append(errs, field.NotSupported(path.Child("type"), l.Type, eventLimits))
	}
	if l.Burst <= 0 {
		errs = append(errs, field.Invalid(path.Child("burst"), l.Burst, "must be positive"))
	}
	if l.QPS <= 0 {
		errs = append(errs, field.Invalid(path.Child("qps"), l.QPS, "must be positive"))
	}
	if l.Type != "Server" && l.CacheSize < 0 {
		errs = append(errs, field.Invalid(path.Child("cacheSize"), l.CacheSize, "must not be negative"))
	}
	return errs
}

func (l *eventLimit) accept(ctx context.Context, e *corev1.Event) error {
	key := ""
	switch l.Type {
	case "Namespace":
		key = e.Namespace
	case "User":
		key = resource.CallFrom(ctx).User
	case "SourceAndObject":
		o := &e.InvolvedObject
		key = strings.Join([]string{e.Source.Component, e.Source.Host, o.Kind, o.Namespace, o.Name, string(o.UID), o.APIVersion}, "")
	}
	l.mu.Lock()
	known, ok := l.keys.Get(key)
	if !ok {
		known = rate.NewLimiter(rate.Limit(l.QPS), int(l.Burst))
		l.keys.Add(key, known)
	}
	l.mu.Unlock()
	if known.(*rate.Limiter).Allow() {
		return nil
	}
	return fmt.Errorf("limit reached on type %v for key %v", l.Type, key)
}
