// Package table makes the columns and cells with which kinds print themselves as lines of a table.
//
// Times are shown as kubectl shows them: as the short time that has passed since.
package table

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/duration"
)

// Column is a column of a table.
type Column = metav1.TableColumnDefinition

var metaDoc = metav1.ObjectMeta{}.SwaggerDoc()

// Name is the column that every table of objects has.
func Name() Column {
	return Column{Name: "Name", Type: "string", Format: "name", Description: metaDoc["name"]}
}

// Age is the column of the time since an object was created.
func Age() Column { return Text("Age", metaDoc["creationTimestamp"]) }

// CreatedAt is the column of the moment at which an object was created.
func CreatedAt() Column {
	return Column{Name: "Created At", Type: "date", Description: metaDoc["creationTimestamp"]}
}

// Text is a column of strings. Kubernetes also puts numbers into some of them.
func Text(name, description string) Column {
	return Column{Name: name, Type: "string", Description: description}
}

// Integer is a column of numbers.
func Integer(name, description string) Column {
	return Column{Name: name, Type: "integer", Description: description}
}

// Boolean is a column of true and false.
func Boolean(name, description string) Column {
	return Column{Name: name, Type: "boolean", Description: description}
}

// Wide makes a column one that is shown only when asked for.
func Wide(c Column) Column {
	c.Priority = 1
	return c
}

// Unknown stands for a time that is not known, None for what is not there.
const (
	Unknown = "<unknown>"
	None    = "<none>"
	Unset   = "<unset>"
)

// Since tells how long ago something happened.
func Since(t metav1.Time) string {
	if t.IsZero() {
		return Unknown
	}
	return duration.HumanDuration(time.Since(t.Time))
}

// Created is the cell of a CreatedAt column.
func Created(t metav1.Time) string { return t.UTC().Format(time.RFC3339) }

// Labels shows a set of labels.
func Labels(set map[string]string) string {
	if len(set) == 0 {
		return None
	}
	return labels.FormatLabels(set)
}
