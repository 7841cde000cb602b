package core

import (
	"context"
	"fmt"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/check"
)

const (
	eventTextLimit = 128
	eventNoteLimit = 1024
)

// strictly reports whether the request uses events.k8s.io/v1, which has stricter rules than core/v1.
func strictly(ctx context.Context) bool {
	return resource.CallFrom(ctx).Face == eventsv1.SchemeGroupVersion
}

func checkEvent(ctx context.Context, e *corev1.Event) field.ErrorList {
	strict := strictly(ctx)
	errs := checkAnyEvent(e, strict)
	if !strict {
		return errs
	}
	if e.Name != "" {
		errs = append(errs, check.Invalid(field.NewPath("metadata", "name"), e.Name, apivalidation.NameIsDNSSubdomain(e.Name, false))...)
	}
	errs = append(errs, checkEventSeries(e)...)
	if e.EventTime.IsZero() {
		errs = append(errs, field.Required(field.NewPath("eventTime"), ""))
	}
	if e.Type != corev1.EventTypeNormal && e.Type != corev1.EventTypeWarning {
		errs = append(errs, field.Invalid(field.NewPath("type"), "", fmt.Sprintf("has invalid value: %v", e.Type)))
	}
	unset := func(name string, is bool) {
		if !is {
			errs = append(errs, field.Invalid(field.NewPath(name), "", "needs to be unset"))
		}
	}
	unset("firstTimestamp", e.FirstTimestamp.IsZero())
	unset("lastTimestamp", e.LastTimestamp.IsZero())
	unset("count", e.Count == 0)
	unset("source", e.Source == corev1.EventSource{})
	return errs
}

func checkEventUpdate(ctx context.Context, e, old *corev1.Event) field.ErrorList {
	strict := strictly(ctx)
	errs := checkAnyEvent(e, strict)
	if !strict {
		return errs
	}
	if !reflect.DeepEqual(e.Series, old.Series) {
		errs = append(errs, checkEventSeries(e)...)
	}
	same := func(now, before any, name string) {
		errs = append(errs, check.Immutable(now, before, field.NewPath(name))...)
	}
	same(e.InvolvedObject, old.InvolvedObject, "involvedObject")
	same(e.Reason, old.Reason, "reason")
	same(e.Message, old.Message, "message")
	same(e.Source, old.Source, "source")
	same(e.FirstTimestamp, old.FirstTimestamp, "firstTimestamp")
	same(e.LastTimestamp, old.LastTimestamp, "lastTimestamp")
	same(e.Count, old.Count, "count")
	same(e.Reason, old.Reason, "reason")
	same(e.Type, old.Type, "type")
	if !e.EventTime.Truncate(time.Microsecond).Equal(old.EventTime.Truncate(time.Microsecond)) {
		errs = append(errs, field.Invalid(field.NewPath("eventTime"), e.EventTime, apivalidation.FieldImmutableErrorMsg))
	}
	same(e.Action, old.Action, "action")
	same(e.Related, old.Related, "related")
	same(e.ReportingController, old.ReportingController, "reportingController")
	same(e.ReportingInstance, old.ReportingInstance, "reportingInstance")
	return errs
}

// checkAnyEvent validates what both groups require. An event with an eventTime has the newer form.
func checkAnyEvent(e *corev1.Event, strict bool) field.ErrorList {
	var errs field.ErrorList
	if e.EventTime.IsZero() {
		errs = checkOldEvent(e)
	} else {
		errs = checkNewEvent(e, strict)
	}
	return append(errs, check.Invalid(field.NewPath("namespace"), e.Namespace, validation.IsDNS1123Subdomain(e.Namespace))...)
}

func checkOldEvent(e *corev1.Event) field.ErrorList {
	about := e.InvolvedObject.Namespace
	if e.Namespace == about || about == "" && (e.Namespace == "" || e.Namespace == metav1.NamespaceDefault) {
		return nil
	}
	return elsewhere(about)
}

func elsewhere(about string) field.ErrorList {
	return field.ErrorList{field.Invalid(field.NewPath("involvedObject", "namespace"), about, "does not match event.namespace")}
}

func checkNewEvent(e *corev1.Event, strict bool) field.ErrorList {
	var errs field.ErrorList
	if e.InvolvedObject.Namespace == "" && e.Namespace != metav1.NamespaceDefault && e.Namespace != metav1.NamespaceSystem {
		errs = elsewhere("")
	}
	controller := field.NewPath("reportingComponent")
	if strict {
		controller = field.NewPath("reportingController")
	}
	if e.ReportingController == "" {
		errs = append(errs, field.Required(controller, ""))
	}
	errs = append(errs, check.Invalid(controller, e.ReportingController, validation.IsQualifiedName(e.ReportingController))...)
	for _, text := range []struct{ name, value string }{
		{"reportingInstance", e.ReportingInstance}, {"action", e.Action}, {"reason", e.Reason},
	} {
		if text.value == "" {
			errs = append(errs, field.Required(field.NewPath(text.name), ""))
		}
		errs = append(errs, atMost(text.name, text.value, eventTextLimit)...)
	}
	return append(errs, atMost("message", e.Message, eventNoteLimit)...)
}

func atMost(name, value string, limit int) field.ErrorList {
	if len(value) <= limit {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath(name), "", fmt.Sprintf("can have at most %v characters", limit))}
}

func checkEventSeries(e *corev1.Event) field.ErrorList {
	var errs field.ErrorList
	if e.Series == nil {
		return nil
	}
	if e.Series.Count < 2 {
		errs = append(errs, field.Invalid(field.NewPath("series.count"), "", "should be at least 2"))
	}
	if e.Series.LastObservedTime.IsZero() {
		errs = append(errs, field.Required(field.NewPath("series.lastObservedTime"), ""))
	}
	return errs
}
