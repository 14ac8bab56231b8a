package redact

import (
	"context"
	"fmt"
	"log/slog"
)

// Handler gives a slog handler that redacts the message and every attribute
// before h sees them: text, errors and whatever else may carry text, in groups
// as well. Numbers, times and truth values pass as they are; other values are
// written as text, because their text is what can be checked.
func (r *Redactor) Handler(h slog.Handler) slog.Handler { return handler{r, h} }

type handler struct {
	redactor *Redactor
	next     slog.Handler
}

func (h handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

func (h handler) Handle(ctx context.Context, rec slog.Record) error {
	safe := slog.NewRecord(rec.Time, rec.Level, h.redactor.String(rec.Message), rec.PC)
	rec.Attrs(func(a slog.Attr) bool {
		safe.AddAttrs(h.redactor.attr(a))
		return true
	})
	return h.next.Handle(ctx, safe)
}

func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{h.redactor, h.next.WithAttrs(h.redactor.attrs(attrs))}
}

func (h handler) WithGroup(name string) slog.Handler {
	return handler{h.redactor, h.next.WithGroup(h.redactor.String(name))}
}

func (r *Redactor) attrs(attrs []slog.Attr) []slog.Attr {
	safe := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		safe[i] = r.attr(a)
	}
	return safe
}

func (r *Redactor) attr(a slog.Attr) slog.Attr {
	key, v := r.String(a.Key), a.Value.Resolve()
	switch v.Kind() {
	case slog.KindGroup:
		return slog.Attr{Key: key, Value: slog.GroupValue(r.attrs(v.Group())...)}
	case slog.KindString:
		return slog.String(key, r.value(a.Key, v.String()))
	case slog.KindAny:
		return slog.String(key, r.value(a.Key, text(v.Any())))
	default:
		return slog.Attr{Key: key, Value: v}
	}
}

// value redacts the text of an attribute, whose key may tell that it is a
// secret as one in a text would.
func (r *Redactor) value(key, v string) string {
	safe := r.String(v)
	if safe == v && isSecretKey(normalKey(key)) && looksSecret(v) {
		return markerOpen + kindAssigned + "]"
	}
	return safe
}

// text gives the text of a value that a handler would otherwise format itself.
func text(v any) string {
	if b, ok := v.([]byte); ok {
		return string(b)
	}
	return fmt.Sprintf("%+v", v)
}
