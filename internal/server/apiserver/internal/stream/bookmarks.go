package stream

import (
	"encoding/json"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace/millrace/internal/server/apiserver/internal/answer"
	"github.com/millrace/millrace/internal/server/apiserver/internal/negotiate"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/store"
)

// bookmark sends a bookmark with a revision.
func (f *frames) bookmark(rev store.Revision, initialEnd bool) {
	o := f.answer.Face.New()
	switch f.answer.Format.Shape {
	case negotiate.Partial:
		o = &metav1.PartialObjectMetadata{}
		o.GetObjectKind().SetGroupVersionKind(answer.PartialGVK)
	case negotiate.Table:
		f.tableBookmark(rev, initialEnd)
		return
	default:
		o.GetObjectKind().SetGroupVersionKind(f.answer.Face.GroupVersionKind)
	}
	meta := o.(resource.Object)
	meta.SetResourceVersion(rev.String())
	if initialEnd {
		meta.SetAnnotations(map[string]string{initialEventsEnd: strconv.FormatBool(true)})
	}
	f.object(watch.Bookmark, o)
	f.flush()
}

// tableBookmark sends a bookmark as a table with one row.
func (f *frames) tableBookmark(rev store.Revision, initialEnd bool) {
	meta := &metav1.PartialObjectMetadata{}
	meta.SetGroupVersionKind(answer.PartialGVK)
	meta.ResourceVersion = rev.String()
	if initialEnd {
		meta.Annotations = map[string]string{initialEventsEnd: strconv.FormatBool(true)}
	}
	raw, err := json.Marshal(meta)
	if err != nil {
		f.err = err
		return
	}
	t := &metav1.Table{ListMeta: metav1.ListMeta{ResourceVersion: rev.String()}, ColumnDefinitions: []metav1.TableColumnDefinition{},
		Rows: []metav1.TableRow{{Cells: []any{}, Object: runtime.RawExtension{Raw: raw}}}}
	t.SetGroupVersionKind(answer.TableGVK)
	f.object(watch.Bookmark, t)
	f.flush()
}
