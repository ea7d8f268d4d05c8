/* load/prompt.c: words from a key, and the messages of a turn. */
#include "load/prompt.h"

#include <stdio.h>

#include "base/rng.h"

static const char *const words[PROMPT_WORDS] = {
    "time",    "year",   "people",  "way",     "day",    "thing",  "world",  "life",    "hand",   "part",   "child",
    "eye",     "place",  "work",    "week",    "case",   "point",  "home",   "water",   "room",   "area",   "money",
    "story",   "fact",   "month",   "lot",     "right",  "study",  "book",   "job",     "word",   "side",   "kind",
    "head",    "house",  "friend",  "father",  "power",  "hour",   "game",   "line",    "end",    "law",    "car",
    "city",    "name",   "team",    "minute",  "idea",   "body",   "face",   "level",   "office", "door",   "health",
    "person",  "art",    "war",     "history", "party",  "result", "change", "morning", "reason", "girl",   "air",
    "teacher", "force",  "north",   "south",   "river",  "road",   "table",  "bread",   "stone",  "field",  "forest",
    "garden",  "window", "letter",  "paper",   "music",  "color",  "summer", "winter",  "spring", "autumn", "light",
    "night",   "sound",  "voice",   "street",  "market", "price",  "value",  "order",   "event",  "plan",   "cause",
    "effect",  "rule",   "form",    "group",   "class",  "state",  "land",   "sea",     "sky",    "star",   "sun",
    "moon",    "rain",   "snow",    "wind",    "fire",   "earth",  "iron",   "gold",    "silver", "wood",   "glass",
    "cloth",   "wool",   "milk",    "salt",    "sugar",  "fruit",  "apple",  "horse",   "bird",   "fish",   "dog",
    "cat",     "sheep",  "cow",     "farm",    "ship",   "boat",   "train",  "plane",   "bridge", "tower",  "wall",
    "roof",    "floor",  "step",    "gate",    "key",    "bell",   "clock",  "watch",   "ring",   "chain",  "rope",
    "wheel",   "engine", "machine", "tool",    "knife",  "fork",   "cup",    "plate",   "bowl",   "box",    "bag",
    "coat",    "shirt",  "shoe",    "hat",     "hair",   "skin",   "bone",   "blood",   "heart",  "mind",   "soul",
    "hope",    "fear",   "love",    "anger",   "peace",  "truth",  "doubt",  "dream",   "sleep",  "rest",   "walk",
    "run",     "jump",   "climb",   "swim",    "fly",    "sing",   "dance",  "laugh",   "cry",    "speak",  "read",
    "write",   "draw",   "paint",   "build",   "break",  "open",   "close",  "start",   "stop",   "begin",  "finish",
    "give",    "take",   "send",    "bring",   "carry",  "hold",   "drop",   "push",    "pull",   "turn",   "move",
    "stay",    "leave",  "come",    "arrive",  "return", "pass",   "cross",  "enter",   "search", "find",   "lose",
    "keep",    "save",   "spend",   "buy",     "sell",   "pay",    "owe",    "earn",    "win",    "fail",   "try",
    "learn",   "teach",  "know",    "think",   "feel",   "see",    "hear",   "touch",   "taste",  "smell",  "large",
    "small",   "long",   "short",
};
static const char *const tools[] = {"read_file(path)", "write_file(path, text)", "search(pattern, folder)",
                                    "run(command)",    "list_folder(path)",      "ask_user(question)"};
enum { TOOL_COUNT = sizeof tools / sizeof tools[0] };

void prompt_words(buf *out, uint64_t key, uint32_t count)
{
    rng r = {key};
    for (uint32_t i = 0; i < count; i++) {
        if (i)
            buf_byte(out, ' ');
        buf_text(out, words[rng_below(&r, PROMPT_WORDS)]);
    }
}

uint32_t prompt_word_count(const prompt_settings *p, double tokens)
{
    double count = tokens * p->words_per_token + 0.5;
    return count < 1 ? 1 : (uint32_t)count;
}

static void json_text(buf *out, span text)
{
    buf_byte(out, '"');
    for (size_t i = 0; i < text.size; i++) {
        unsigned char c = (unsigned char)text.data[i];
        if (c == '"' || c == '\\')
            buf_printf(out, "\\%c", c);
        else if (c < 0x20)
            buf_printf(out, "\\u%04x", c);
        else
            buf_byte(out, (char)c);
    }
    buf_byte(out, '"');
}

static void message(buf *out, const char *role, span text)
{
    buf_printf(out, "%s{\"role\":\"%s\",\"content\":", out->data[out->size - 1] == '[' ? "" : ",", role);
    json_text(out, text);
    buf_byte(out, '}');
}

/* The system prompt of all agents of a seed. */
static void system_text(buf *out, const prompt_settings *p, const load_session *s)
{
    uint32_t count = prompt_word_count(p, s->shared_tokens), each = count / TOOL_COUNT;
    buf_text(out, "You are an agent. Tools:\n");
    for (uint32_t i = 0; i < TOOL_COUNT; i++) {
        buf_printf(out, "- %s: ", tools[i]);
        prompt_words(out, s->shared_key + i, each > 8 ? each - 8 : 1); /* about 8 tokens for the line's head */
        buf_byte(out, '\n');
    }
}

/* A trace's blocks: rows that share an id share that text. What is left over is the row's own. */
static void trace_text(buf *out, const prompt_settings *p, const load_session *s, double tokens)
{
    uint32_t left = prompt_word_count(p, tokens), block = prompt_word_count(p, s->block_tokens);
    for (uint32_t i = 0; i < s->row->block_count && left > 0; i++) {
        uint32_t count = left < block ? left : block;
        prompt_words(out, s->shared_key ^ ((s->blocks[s->row->block_start + i] + 1) * 0xD1B54A32D192ED03u), count);
        buf_byte(out, ' ');
        left -= count;
    }
    if (left)
        prompt_words(out, s->key, left);
}

static void turn_text(buf *out, const prompt_settings *p, const load_session *s, uint32_t turn)
{
    double tokens = s->turns[turn].prompt_tokens;
    if (turn == 0 && !s->shared_tokens)
        tokens -= p->overhead_tokens;
    if (s->role == LOAD_TRACE) {
        trace_text(out, p, s, tokens);
        return;
    }
    if (s->role == LOAD_AGENTS && turn)
        buf_text(out, "Result: ");
    prompt_words(out, s->key + 1 + turn, prompt_word_count(p, tokens));
}

void prompt_body(buf *out, const prompt_settings *p, const load_request *request)
{
    const load_session *s = request->session;
    buf text = {0};
    buf_text(out, "{\"model\":");
    json_text(out, span_from(p->model));
    buf_text(out, ",\"messages\":[");
    if (s->shared_tokens) {
        system_text(&text, p, s);
        message(out, "system", buf_span(&text));
    }
    for (uint32_t turn = 0; turn <= request->turn; turn++) {
        buf_clear(&text);
        turn_text(&text, p, s, turn);
        message(out, "user", buf_span(&text));
        if (turn < request->turn)
            message(out, "assistant", request->answers[turn]);
    }
    buf_printf(out,
               "],\"max_tokens\":%u,\"temperature\":0,\"stream\":true,\"stream_options\":{\"include_usage\":true}%s",
               s->turns[request->turn].output_tokens, p->ignore_eos ? ",\"ignore_eos\":true" : "");
    if (p->service_tier && s->role != LOAD_AGENTS) {
        buf_text(out, ",\"service_tier\":");
        json_text(out, span_from(p->service_tier));
    }
    buf_byte(out, '}');
    out->failed = out->failed || text.failed;
    buf_free(&text);
}
