// Package table makes the columns and cells of tables.
//
// Times are shown as in kubectl: as the time since then, in short form.
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

// Name returns the column that every table of objects has.
func Name() Column {
	return Column{Name: "Name", Type: "string", Format: "name", Description: metaDoc["name"]}
}

// Age returns the column for the time since an object was created.
func Age() Column { return Text("Age", metaDoc["creationTimestamp"]) }

// CreatedAt returns the column for the time at which an object was created.
func CreatedAt() Column {
	return Column{Name: "Created At", Type: "date", Description: metaDoc["creationTimestamp"]}
}

// Text returns a column of strings. Kubernetes also puts numbers into some of them.
func Text(name, description string) Column {
	return Column{Name: name, Type: "string", Description: description}
}

// Integer returns a column of numbers.
func Integer(name, description string) Column {
	return Column{Name: name, Type: "integer", Description: description}
}

// Boolean returns a column of booleans.
func Boolean(name, description string) Column {
	return Column{Name: name, Type: "boolean", Description: description}
}

// Wide returns the column with a priority so low that it is shown only on request.
func Wide(c Column) Column {
	c.Priority = 1
	return c
}

// Unknown is shown for unknown times, None for missing values.
const (
	Unknown = "<unknown>"
	None    = "<none>"
	Unset   = "<unset>"
)

// Since returns how long ago something happened.
func Since(t metav1.Time) string {
	if t.IsZero() {
		return Unknown
	}
	return duration.HumanDuration(time.Since(t.Time))
}

// Created returns the cell of a CreatedAt column.
func Created(t metav1.Time) string { return t.UTC().Format(time.RFC3339) }

// Labels formats a set of labels.
func Labels(set map[string]string) string {
	if len(set) == 0 {
		return None
	}
	return labels.FormatLabels(set)
}
