package answer

import (
	"bytes"
	"encoding/json"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace/millrace/internal/server/apiserver/internal/negotiate"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/watchcache"
	"github.com/millrace/millrace/internal/server/wire"
)

var defaultColumns = []metav1.TableColumnDefinition{
	{Name: "Name", Type: "string", Format: "name", Description: metav1.ObjectMeta{}.SwaggerDoc()["name"]},
	{Name: "Created At", Type: "date", Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"]},
}

func (a *Answer) sendTable(l *registry.List) error {
	include, err := a.included()
	if err != nil {
		return err
	}
	if include == metav1.IncludeMetadata && a.Format.Media == negotiate.JSON && !a.Format.Pretty && len(l.Objects) > 0 {
		return a.sendTableRows(l)
	}
	objects := make([]resource.Object, 0, len(l.Objects))
	for _, o := range l.Objects {
		obj, err := a.decode(o)
		if err != nil {
			return err
		}
		objects = append(objects, obj)
	}
	table, err := a.table(objects)
	if err != nil {
		return err
	}
	table.ListMeta = listMeta(l)
	return a.Send(http.StatusOK, table, TableGVK)
}

// sendTableRows sends a table row by row. The cells are computed for each response, because some change with time; the
// metadata is a shared form.
func (a *Answer) sendTableRows(l *registry.List) error {
	out := a.newChunked()
	defer out.end()
	t := &metav1.Table{ListMeta: listMeta(l), ColumnDefinitions: a.columns(), Rows: []metav1.TableRow{}}
	t.SetGroupVersionKind(TableGVK)
	text, err := json.Marshal(t)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	out.b.Bytes = append(out.b.Bytes, bytes.TrimSuffix(text, []byte("]}"))...) // the rows come last
	for i, o := range l.Objects {
		row, err := a.rowJSON(o)
		if err != nil {
			return a.broken(out, err)
		}
		if i == 0 {
			a.Head(resource.JSONType)
		} else {
			out.b.Bytes = append(out.b.Bytes, ',')
		}
		out.b.Bytes = append(out.b.Bytes, row...)
		if out.flushIfFull(); out.err != nil {
			return nil
		}
	}
	out.b.Bytes = append(out.b.Bytes, "]}\n"...)
	return nil
}

// rowObject is what precedes the shared form of an object's metadata in a row.
var rowObject = wire.AppendTypeMeta([]byte(`,"object":`), PartialGVK.Kind, PartialGVK.GroupVersion().String())

// rowJSON returns a row with the object's metadata.
func (a *Answer) rowJSON(o *watchcache.Object) ([]byte, error) {
	obj, err := a.decode(o)
	if err != nil {
		return nil, err
	}
	if resource.IsForeign(a.Kind) { // the shared form has the labels of the stored version
		row, err := a.row(obj, metav1.IncludeMetadata)
		if err != nil {
			return nil, err
		}
		return json.Marshal(row)
	}
	row, err := a.row(obj, metav1.IncludeNone)
	if err != nil {
		return nil, err
	}
	form, err := wire.MetadataJSON(o)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(row)
	if err != nil {
		return nil, err
	}
	text = bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("}")), []byte(`,"object":null`))
	return append(append(append(text, rowObject...), form...), '}'), nil
}

// included returns what each row contains of its object.
func (a *Answer) included() (metav1.IncludeObjectPolicy, error) {
	switch include := metav1.IncludeObjectPolicy(a.Request.URL.Query().Get("includeObject")); include {
	case "":
		return metav1.IncludeMetadata, nil
	case metav1.IncludeNone, metav1.IncludeMetadata, metav1.IncludeObject:
		return include, nil
	default:
		return "", apierrors.NewBadRequest("unrecognized includeObject value: " + string(include))
	}
}

func (a *Answer) columns() []metav1.TableColumnDefinition {
	if a.Kind.Row == nil {
		return defaultColumns
	}
	return a.Kind.Columns
}

// table returns a table with one row for each object.
func (a *Answer) table(objects []resource.Object) (*metav1.Table, error) {
	include, err := a.included()
	if err != nil {
		return nil, err
	}
	t := &metav1.Table{ColumnDefinitions: a.columns(), Rows: make([]metav1.TableRow, 0, len(objects))}
	for _, o := range objects {
		row, err := a.row(o, include)
		if err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		t.Rows = append(t.Rows, row)
	}
	return t, nil
}

func (a *Answer) row(o resource.Object, include metav1.IncludeObjectPolicy) (metav1.TableRow, error) {
	row := metav1.TableRow{}
	if a.Kind.Row == nil {
		row.Cells = []any{o.GetName(), o.GetCreationTimestamp().UTC().Format(time.RFC3339)}
	} else {
		printed := a.Kind.Row(o)
		row.Cells, row.Conditions = printed.Cells, printed.Conditions
	}
	var object runtime.Object
	switch include {
	case metav1.IncludeNone:
		return row, nil
	case metav1.IncludeObject:
		object = a.faceOf(o)
		object.GetObjectKind().SetGroupVersionKind(a.Face.GroupVersionKind)
	default:
		object = partialOf(o)
	}
	raw, err := json.Marshal(object)
	row.Object.Raw = raw
	return row, err
}

// Shaped converts an event's object to the requested shape, if no form can be shared.
func (a *Answer) Shaped(e registry.Event) (runtime.Object, error) {
	o, err := a.Kind.Decode(a.Within, e.Object.Value(), e.Revision.String())
	if err != nil {
		return nil, err
	}
	if a.Format.Shape != negotiate.Table {
		face := a.faceOf(o)
		face.GetObjectKind().SetGroupVersionKind(a.Face.GroupVersionKind)
		return face, nil
	}
	t, err := a.table([]resource.Object{o})
	if err != nil {
		return nil, err
	}
	t.SetGroupVersionKind(TableGVK)
	t.ResourceVersion = o.GetResourceVersion()
	return t, nil
}
