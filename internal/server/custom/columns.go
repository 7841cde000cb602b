package custom

import (
	"bytes"
	"fmt"
	"reflect"
	"sync"

	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/jsonpath"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/table"
)

// ageColumn is what definitions without columns have.
var ageColumn = v1.CustomResourceColumnDefinition{
	Name: "Age", Type: "date", Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"], JSONPath: ".metadata.creationTimestamp",
}

// columns prints objects as a definition wants it. Paths are compiled when the first object is printed.
func columns(defined []v1.CustomResourceColumnDefinition) ([]metav1.TableColumnDefinition, func(resource.Object) resource.Row) {
	if len(defined) == 0 {
		defined = []v1.CustomResourceColumnDefinition{ageColumn}
	}
	heads := []metav1.TableColumnDefinition{{Name: "Name", Type: "string", Format: "name", Description: metav1.ObjectMeta{}.SwaggerDoc()["name"]}}
	for _, c := range defined {
		if c.Description == "" {
			c.Description = "Custom resource definition column (in JSONPath format): " + c.JSONPath
		}
		heads = append(heads, metav1.TableColumnDefinition{Name: c.Name, Type: c.Type, Format: c.Format, Description: c.Description, Priority: c.Priority})
	}
	printers := sync.OnceValue(func() []*printer { return printersOf(defined) })
	return heads, func(o resource.Object) resource.Row {
		row := resource.Row{Cells: []any{o.GetName()}}
		for _, p := range printers() {
			row.Cells = append(row.Cells, p.cell(content(o)))
		}
		return row
	}
}

// printer prints one column. A path keeps what it is doing while it looks, so only one may look at a time.
type printer struct {
	as string

	mu   sync.Mutex // guards path
	path *jsonpath.JSONPath
}

func printersOf(defined []v1.CustomResourceColumnDefinition) []*printer {
	var out []*printer
	for _, c := range defined {
		p := &printer{as: c.Type, path: jsonpath.New(c.Name).AllowMissingKeys(true)}
		if err := p.path.Parse(fmt.Sprintf("{%s}", c.JSONPath)); err != nil {
			break // as kube-apiserver, which shows what comes before
		}
		out = append(out, p)
	}
	return out
}

func (p *printer) cell(object map[string]any) any {
	p.mu.Lock()
	defer p.mu.Unlock()
	found, err := p.path.FindResults(object)
	if err != nil || len(found) == 0 || len(found[0]) == 0 {
		return nil
	}
	value := found[0][0].Interface()
	if p.as != "string" {
		return cellOf(p.as, value)
	}
	var text bytes.Buffer
	if err := p.path.PrintResults(&text, []reflect.Value{reflect.ValueOf(value)}); err != nil {
		return nil
	}
	return text.String()
}

// cellOf is a value as a cell of a type; nothing if it is of another.
func cellOf(as string, value any) any {
	switch v := value.(type) {
	case int64:
		switch as {
		case "integer":
			return v
		case "number":
			return float64(v)
		}
	case float64:
		switch as {
		case "integer":
			return int64(v)
		case "number":
			return v
		}
	case bool:
		if as == "boolean" {
			return v
		}
	case string:
		if as == "date" {
			return since(v)
		}
	}
	return nil
}

func since(text string) any {
	var at metav1.Time
	if err := at.UnmarshalQueryParameter(text); err != nil {
		return "<invalid>"
	}
	return table.Since(at)
}
