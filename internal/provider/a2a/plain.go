package a2a

import (
	"slices"

	"signalbox/internal/jsonwalk"
)

// plain reads an artifact update that brings nothing but text, which is most of
// a stream; encoding/json, which reads everything else, took two thirds of the
// time of one. It knows members by their exact names and forms, and gives false
// for all others; a fuzz test holds it to encoding/json. The value is valid.
func plain(value []byte) (u artifactUpdate, ok bool) {
	ok = members(value, func(name string, v []byte) bool {
		switch name {
		case "taskId":
			return text(v, &u.TaskID)
		case "contextId":
			return text(v, &u.ContextID)
		case "append":
			u.Append = string(v) == "true"
			return u.Append || string(v) == "false"
		case "artifact":
			return plainArtifact(v, &u.Artifact)
		}
		return name == "kind" || name == "lastChunk" || name == "metadata"
	})
	return u, ok
}

func plainArtifact(value []byte, a *artifact) bool {
	return members(value, func(name string, v []byte) bool {
		switch name {
		case "artifactId":
			return text(v, &a.ID)
		case "name":
			return text(v, &a.Name)
		case "parts":
			a.Parts = []part{}
			for v := range jsonwalk.Elements(v) {
				var p part
				if !plainPart(v, &p) {
					return false
				}
				a.Parts = append(a.Parts, p)
			}
			return jsonwalk.IsArray(v)
		}
		return name == "description" || name == "extensions" || name == "metadata"
	})
}

func plainPart(value []byte, p *part) bool {
	return members(value, func(name string, v []byte) bool {
		switch name {
		case "kind":
			return text(v, &p.Kind)
		case "text":
			p.Text = new(string)
			return text(v, p.Text)
		case "mediaType":
			return text(v, &p.Media)
		case "filename":
			return text(v, &p.Filename)
		}
		return name == "metadata"
	})
}

// members gives each member of an object to take, and reports whether all were
// taken and none came twice.
func members(value []byte, take func(name string, v []byte) bool) bool {
	var names [8]string // no object here has more
	n := 0
	for name, v := range jsonwalk.Members(value) {
		if n == len(names) || slices.Contains(names[:n], name) || !take(name, v) {
			return false
		}
		names[n] = name
		n++
	}
	return jsonwalk.IsObject(value)
}

// text decodes a string that UTF-8 can hold.
func text(v []byte, into *string) bool {
	b, ok := jsonwalk.Text(v)
	*into = string(b)
	return ok
}
