package core

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/check"
	"github.com/millrace/millrace/internal/server/resource/table"
)

// eventLife is the time to live of an event.
const eventLife = time.Hour

// Events report what happened to other objects. The same objects are served in the groups core and events.k8s.io.
func Events() *resource.Kind {
	doc := corev1.Event{}.SwaggerDoc()
	return resource.Define(resource.Description[*corev1.Event]{
		Group: "", Version: "v1", Kind: "Event", Resource: "events",
		Namespaced: true, ShortNames: []string{"ev"}, TTL: eventLife,
		UnconditionalUpdate: true, CreateOnUpdate: true,
		Name: check.PathSegment, FreeFinalizers: true,
		Rules: resource.Rules[*corev1.Event]{Validate: checkEvent, ValidateUpdate: checkEventUpdate},
		Fields: []resource.Field{
			{Label: "involvedObject.kind"},
			{Label: "involvedObject.namespace"},
			{Label: "involvedObject.name"},
			{Label: "involvedObject.uid", Indexed: true},
			{Label: "involvedObject.apiVersion"},
			{Label: "involvedObject.resourceVersion"},
			{Label: "involvedObject.fieldPath"},
			{Label: "reason"},
			{Label: "reportingComponent"},
			{Label: "source", Path: "source.component|reportingComponent"},
			{Label: "type"},
		},
		Columns: []table.Column{
			table.Text("Last Seen", doc["lastTimestamp"]),
			table.Text("Type", doc["type"]),
			table.Text("Reason", doc["reason"]),
			table.Text("Object", doc["involvedObject"]),
			table.Wide(table.Text("Subobject", corev1.ObjectReference{}.SwaggerDoc()["fieldPath"])),
			table.Wide(table.Text("Source", doc["source"])),
			table.Text("Message", doc["message"]),
			table.Wide(table.Text("First Seen", doc["firstTimestamp"])),
			table.Wide(table.Text("Count", doc["count"])),
			table.Wide(table.Name()),
		},
		Row:  eventRow,
		Also: []resource.Serving[*corev1.Event]{eventsFace()},
	})
}

func eventRow(e *corev1.Event) resource.Row {
	first, last, count := e.FirstTimestamp, e.LastTimestamp, e.Count
	if first.IsZero() {
		first = metav1.Time{Time: e.EventTime.Time}
	}
	switch {
	case e.Series != nil:
		last, count = metav1.Time{Time: e.Series.LastObservedTime.Time}, e.Series.Count
	case last.IsZero():
		last = first
	}
	if count == 0 {
		count = 1 // only the newer form omits the count of an event that happened once
	}
	object := strings.ToLower(e.InvolvedObject.Kind)
	if e.InvolvedObject.Name != "" {
		object += "/" + e.InvolvedObject.Name
	}
	return resource.Row{Cells: []any{
		table.Since(last), e.Type, e.Reason, object, e.InvolvedObject.FieldPath, eventSource(e),
		strings.TrimSpace(e.Message), table.Since(first), int64(count), e.Name,
	}}
}

func eventSource(e *corev1.Event) string {
	component, instance := e.Source.Component, e.Source.Host
	if component == "" {
		component = e.ReportingController
	}
	if instance == "" {
		instance = e.ReportingInstance
	}
	if instance == "" {
		return component
	}
	return component + ", " + instance
}

// eventsFace is the face of the group events.k8s.io.
func eventsFace() resource.Serving[*corev1.Event] {
	return resource.Serving[*corev1.Event]{
		Group: eventsv1.GroupName, Version: "v1", Kind: "Event",
		New:  newFaceEvent,
		From: fromCoreEvent,
		To:   toCoreEvent,
		Fields: map[string]string{
			"regarding.kind":            "involvedObject.kind",
			"regarding.namespace":       "involvedObject.namespace",
			"regarding.name":            "involvedObject.name",
			"regarding.uid":             "involvedObject.uid",
			"regarding.apiVersion":      "involvedObject.apiVersion",
			"regarding.resourceVersion": "involvedObject.resourceVersion",
			"regarding.fieldPath":       "involvedObject.fieldPath",
			"reason":                    "reason",
			"reportingController":       "reportingComponent",
			"type":                      "type",
		},
	}
}
