package apiserver

import (
	"encoding/json"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"time"

	"github.com/millrace/millrace/registry"
	"github.com/millrace/millrace/resource"
)

var defaultColumns = []metav1.TableColumnDefinition{
	{Name: "Name", Type: "string", Format: "name", Description: metav1.ObjectMeta{}.SwaggerDoc()["name"]},
	{Name: "Created At", Type: "date", Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"]},
}

func (c *call) sendTable(l *registry.List) error {
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

// table prints objects, one a row.
func (c *call) table(objects []resource.Object) (*metav1.Table, error) {
	include := metav1.IncludeObjectPolicy(c.r.URL.Query().Get("includeObject"))
	switch include {
	case "":
		include = metav1.IncludeMetadata
	case metav1.IncludeNone, metav1.IncludeMetadata, metav1.IncludeObject:
	default:
		return nil, apierrors.NewBadRequest("unrecognized includeObject value: " + string(include))
	}
	t := &metav1.Table{ColumnDefinitions: c.kind.Columns, Rows: make([]metav1.TableRow, 0, len(objects))}
	if c.kind.Row == nil {
		t.ColumnDefinitions = defaultColumns
	}
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
