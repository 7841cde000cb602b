package apiserver

import (
	"bytes"
	"encoding/json"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"time"

	"github.com/millrace/millrace/server/registry"
	"github.com/millrace/millrace/server/resource"
	"github.com/millrace/millrace/server/watchcache"
	"github.com/millrace/millrace/server/wire"
)

var defaultColumns = []metav1.TableColumnDefinition{
	{Name: "Name", Type: "string", Format: "name", Description: metav1.ObjectMeta{}.SwaggerDoc()["name"]},
	{Name: "Created At", Type: "date", Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"]},
}

func (c *call) sendTable(l *registry.List) error {
	include, err := c.included()
	if err != nil {
		return err
	}
	if include == metav1.IncludeMetadata && c.format.media == mediaJSON && !c.format.pretty && len(l.Objects) > 0 {
		return c.sendTableRows(l)
	}
	objects := make([]resource.Object, 0, len(l.Objects))
	for _, o := range l.Objects {
		obj, err := c.decode(o)
		if err != nil {
			return err
		}
		objects = append(objects, obj)
	}
	table, err := c.table(objects)
	if err != nil {
		return err
	}
	table.ListMeta = listMeta(l)
	return c.send(http.StatusOK, table, tableGVK)
}

// sendTableRows sends a table row by row: the cells are made for each answer, as some of them change with time, and the
// metadata is the form that other answers share.
func (c *call) sendTableRows(l *registry.List) error {
	out := c.newChunked()
	defer out.end()
	t := &metav1.Table{ListMeta: listMeta(l), ColumnDefinitions: c.columns(), Rows: []metav1.TableRow{}}
	t.SetGroupVersionKind(tableGVK)
	text, err := json.Marshal(t)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	out.b.bytes = append(out.b.bytes, bytes.TrimSuffix(text, []byte("]}"))...) // the rows come last
	object := wire.AppendTypeMeta([]byte(`,"object":`), partialGVK.Kind, partialGVK.GroupVersion().String())
	for i, o := range l.Objects {
		cells, err := c.cells(o)
		if err != nil {
			return c.broken(out, err)
		}
		form, err := wire.MetadataJSON(o)
		if err != nil {
			return c.broken(out, err)
		}
		if i == 0 {
			c.head(resource.JSONType)
		} else {
			out.b.bytes = append(out.b.bytes, ',')
		}
		out.b.bytes = append(append(out.b.bytes, cells...), object...)
		out.b.bytes = append(append(out.b.bytes, form...), '}')
		if out.room(); out.err != nil {
			return nil
		}
	}
	out.b.bytes = append(out.b.bytes, "]}\n"...)
	return nil
}

// cells is a row up to its object.
func (c *call) cells(o *watchcache.Object) ([]byte, error) {
	obj, err := c.decode(o)
	if err != nil {
		return nil, err
	}
	row, err := c.row(obj, metav1.IncludeNone)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(row)
	if err != nil {
		return nil, err
	}
	if before, ok := bytes.CutSuffix(text, []byte(`,"object":null}`)); ok {
		return before, nil
	}
	return bytes.TrimSuffix(text, []byte("}")), nil
}

// included tells what the caller wants to have with each row.
func (c *call) included() (metav1.IncludeObjectPolicy, error) {
	switch include := metav1.IncludeObjectPolicy(c.r.URL.Query().Get("includeObject")); include {
	case "":
		return metav1.IncludeMetadata, nil
	case metav1.IncludeNone, metav1.IncludeMetadata, metav1.IncludeObject:
		return include, nil
	default:
		return "", apierrors.NewBadRequest("unrecognized includeObject value: " + string(include))
	}
}

func (c *call) columns() []metav1.TableColumnDefinition {
	if c.kind.Row == nil {
		return defaultColumns
	}
	return c.kind.Columns
}

// table prints objects, one a row.
func (c *call) table(objects []resource.Object) (*metav1.Table, error) {
	include, err := c.included()
	if err != nil {
		return nil, err
	}
	t := &metav1.Table{ColumnDefinitions: c.columns(), Rows: make([]metav1.TableRow, 0, len(objects))}
	for _, o := range objects {
		row, err := c.row(o, include)
		if err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		t.Rows = append(t.Rows, row)
	}
	return t, nil
}

func (c *call) row(o resource.Object, include metav1.IncludeObjectPolicy) (metav1.TableRow, error) {
	row := metav1.TableRow{}
	if c.kind.Row == nil {
		row.Cells = []any{o.GetName(), o.GetCreationTimestamp().UTC().Format(time.RFC3339)}
	} else {
		printed := c.kind.Row(o)
		row.Cells, row.Conditions = printed.Cells, printed.Conditions
	}
	var object runtime.Object
	switch include {
	case metav1.IncludeNone:
		return row, nil
	case metav1.IncludeObject:
		object = c.faceOf(o)
		object.GetObjectKind().SetGroupVersionKind(c.face.GroupVersionKind)
	default:
		object = partialOf(o)
	}
	raw, err := json.Marshal(object)
	row.Object.Raw = raw
	return row, err
}
