PRAGMA application_id = 1463960392;
PRAGMA user_version = 2;
CREATE TABLE "_sqlite_migrations" (
   "id" INTEGER PRIMARY KEY,
   "migration_set" TEXT,
   "name" TEXT,
   "applied_at" TEXT
);
CREATE UNIQUE INDEX "idx__sqlite_migrations_migration_set_name"
    ON "_sqlite_migrations" ("migration_set", "name");
CREATE TABLE setting (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE run (
            id INTEGER PRIMARY KEY,
            stage TEXT NOT NULL,
            state TEXT NOT NULL
                CHECK (state IN ('running', 'done', 'cancelled', 'failed', 'interrupted')),
            config_hash TEXT NOT NULL,
            params TEXT NOT NULL,
            fingerprints TEXT NOT NULL,
            code_version TEXT NOT NULL,
            started_at TEXT NOT NULL,
            finished_at TEXT,
            done INTEGER NOT NULL DEFAULT 0,
            total INTEGER,
            message TEXT,
            pid INTEGER NOT NULL
        ) STRICT;
CREATE TABLE source (
            id INTEGER PRIMARY KEY,
            place TEXT NOT NULL UNIQUE,
            label TEXT NOT NULL,
            format TEXT NOT NULL,
            why TEXT NOT NULL
        ) STRICT;
CREATE TABLE conversation (
            id INTEGER PRIMARY KEY,
            source_id INTEGER NOT NULL REFERENCES source (id),
            external_id TEXT NOT NULL,
            hash BLOB NOT NULL UNIQUE,
            opening TEXT NOT NULL,
            messages INTEGER NOT NULL,
            turns INTEGER NOT NULL,
            chars INTEGER NOT NULL,
            created_at TEXT,
            meta TEXT NOT NULL,
            line INTEGER
        ) STRICT;
CREATE TABLE original (
            conversation_id INTEGER PRIMARY KEY REFERENCES conversation (id),
            raw BLOB NOT NULL
        ) STRICT;
CREATE TABLE message (
            id INTEGER PRIMARY KEY,
            conversation_id INTEGER NOT NULL REFERENCES conversation (id),
            idx INTEGER NOT NULL,
            role TEXT NOT NULL,
            name TEXT,
            content TEXT NOT NULL,
            tool_calls TEXT,
            tool_call_id TEXT,
            model_view TEXT,
            hidden INTEGER NOT NULL
        ) STRICT;
CREATE VIRTUAL TABLE message_fts USING fts5 (
            content, tool_calls, content = 'message', content_rowid = 'id');
CREATE TABLE truth (
            conversation_id INTEGER PRIMARY KEY REFERENCES conversation (id),
            truth TEXT NOT NULL
        ) STRICT;
CREATE TABLE alias (
            id INTEGER PRIMARY KEY,
            conversation_id INTEGER NOT NULL REFERENCES conversation (id),
            source_id INTEGER NOT NULL REFERENCES source (id),
            external_id TEXT NOT NULL,
            line INTEGER,
            raw BLOB NOT NULL,
            truth TEXT
        ) STRICT;
CREATE INDEX alias_by_conversation ON alias (conversation_id);
CREATE TABLE leak (
            id INTEGER PRIMARY KEY,
            conversation_id INTEGER NOT NULL REFERENCES conversation (id),
            message INTEGER,
            rule TEXT NOT NULL,
            found TEXT NOT NULL
        ) STRICT;
CREATE INDEX leak_by_conversation ON leak (conversation_id);
CREATE TABLE quarantine (
            id INTEGER PRIMARY KEY,
            digest BLOB NOT NULL UNIQUE,
            source_id INTEGER NOT NULL REFERENCES source (id),
            line INTEGER,
            reason TEXT NOT NULL,
            raw BLOB NOT NULL
        ) STRICT;
CREATE TABLE score_config (
            config_hash TEXT PRIMARY KEY,
            mode TEXT NOT NULL CHECK (mode IN ('base', 'tuned', 'judge')),
            model TEXT NOT NULL,
            adapter TEXT,
            noise REAL
        ) STRICT, WITHOUT ROWID;
CREATE TABLE score (
            conversation_id INTEGER NOT NULL REFERENCES conversation (id),
            config_hash TEXT NOT NULL REFERENCES score_config (config_hash),
            run_id INTEGER NOT NULL REFERENCES run (id),
            p_end REAL,
            p_continue REAL,
            p_end_normalised REAL,
            reason TEXT,
            tokens INTEGER NOT NULL,
            PRIMARY KEY (conversation_id, config_hash),
            CHECK (p_end_normalised IS NOT NULL OR reason IS NOT NULL)
        ) STRICT, WITHOUT ROWID;
CREATE TABLE boundary_score (
            conversation_id INTEGER NOT NULL,
            config_hash TEXT NOT NULL,
            message INTEGER NOT NULL,
            step INTEGER NOT NULL,
            turn INTEGER NOT NULL,
            p_end REAL NOT NULL,
            p_continue REAL NOT NULL,
            PRIMARY KEY (conversation_id, config_hash, message),
            FOREIGN KEY (conversation_id, config_hash)
                REFERENCES score (conversation_id, config_hash)
        ) STRICT, WITHOUT ROWID;
CREATE TABLE remaining (
            conversation_id INTEGER NOT NULL,
            config_hash TEXT NOT NULL,
            score_config_hash TEXT NOT NULL,
            run_id INTEGER NOT NULL REFERENCES run (id),
            text TEXT NOT NULL,
            reason TEXT,
            PRIMARY KEY (conversation_id, config_hash),
            FOREIGN KEY (conversation_id, score_config_hash)
                REFERENCES score (conversation_id, config_hash)
        ) STRICT, WITHOUT ROWID;
CREATE INDEX conversation_by_source ON conversation (source_id, messages, turns);
CREATE INDEX score_by_value ON score (config_hash, p_end_normalised);
CREATE INDEX conversation_by_turns ON conversation (turns);
CREATE INDEX conversation_by_messages ON conversation (messages);
CREATE INDEX conversation_by_length ON conversation (chars);
CREATE INDEX conversation_by_date ON conversation (created_at);
CREATE INDEX conversation_by_name ON conversation (external_id);
CREATE TABLE "verdict" (
            id INTEGER PRIMARY KEY,
            conversation_id INTEGER NOT NULL REFERENCES conversation (id),
            kind TEXT NOT NULL
                CHECK (kind IN ('give', 'repeat', 'note', 'tag', 'untag', 'undo', 'redo')),
            verdict TEXT CHECK (verdict IN ('complete', 'incomplete', 'unsure')),
            note TEXT NOT NULL DEFAULT '',
            given_at TEXT NOT NULL,
            target INTEGER REFERENCES "verdict" (id),
            CHECK ((kind IN ('give', 'repeat')) = (verdict IS NOT NULL)),
            CHECK ((kind IN ('undo', 'redo')) = (target IS NOT NULL))
        ) STRICT;
CREATE INDEX verdict_by_conversation ON verdict (conversation_id);
CREATE INDEX verdict_by_target ON verdict (target) WHERE target IS NOT NULL;
CREATE TABLE tree_config (
            config_hash TEXT PRIMARY KEY,
            alpha REAL NOT NULL,
            mode TEXT NOT NULL CHECK (mode IN ('path', 'token')),
            place TEXT NOT NULL CHECK (place IN ('last-answer', 'end', 'every')),
            model TEXT NOT NULL,
            adapter TEXT
        ) STRICT, WITHOUT ROWID;
CREATE TABLE tree (
            id INTEGER PRIMARY KEY,
            conversation_id INTEGER NOT NULL REFERENCES conversation (id),
            config_hash TEXT NOT NULL REFERENCES tree_config (config_hash),
            step INTEGER NOT NULL,
            run_id INTEGER NOT NULL REFERENCES run (id),
            reason TEXT,
            prompt_tokens INTEGER NOT NULL,
            note TEXT,
            leaves INTEGER NOT NULL,
            answers INTEGER NOT NULL,
            nodes INTEGER NOT NULL,
            max_log_prob REAL,
            max_log_prob_per_token REAL,
            covered REAL NOT NULL,
            pruned REAL NOT NULL,
            unexpanded REAL NOT NULL,
            entropy_low REAL NOT NULL,
            entropy_high REAL NOT NULL,
            fork_depth INTEGER,
            fork_entropy REAL,
            answer_log_prob REAL,
            answer_tokens INTEGER NOT NULL,
            answer_held INTEGER NOT NULL,
            seconds REAL NOT NULL,
            packed BLOB,
            CHECK ((packed IS NULL) = (reason IS NOT NULL)),
            UNIQUE (conversation_id, config_hash, step)
        ) STRICT;
INSERT INTO _sqlite_migrations (id, migration_set, name, applied_at) VALUES (1, 'workbench', 'm001_conversations_scores_verdicts', '2026-11-20 15:21:41.523670+00:00');
INSERT INTO _sqlite_migrations (id, migration_set, name, applied_at) VALUES (2, 'workbench', 'm002_scale_tags_trees', '2026-11-20 15:21:41.574679+00:00');
INSERT INTO setting (key, value) VALUES ('score_config', '"config-a"');
INSERT INTO setting (key, value) VALUES ('tree_config', '"t"');
INSERT INTO run (id, stage, state, config_hash, params, fingerprints, code_version, started_at, finished_at, done, total, message, pid) VALUES (1, 'score', 'done', 'config-a', '{}', '{}', 'test', '2026-11-20T15:21:41.596Z', '2026-11-20T15:21:41.602Z', 0, NULL, 'scored', 24352);
INSERT INTO source (id, place, label, format, why) VALUES (1, '/data/a.jsonl', 'a.jsonl', 'uniform', 'it looked like it');
INSERT INTO source (id, place, label, format, why) VALUES (2, '/data/b', 'b', 'uniform', 'it looked like it');
INSERT INTO conversation (id, source_id, external_id, hash, opening, messages, turns, chars, created_at, meta, line) VALUES (1, 1, 'a', X'CFD97516E8A989AE5E6CE8526770EFB2EFDBEDE009AC236F46DA366D6D9E1026', 'I want a red bicycle', 2, 1, 25, NULL, '{}', NULL);
INSERT INTO conversation (id, source_id, external_id, hash, opening, messages, turns, chars, created_at, meta, line) VALUES (2, 2, 't', X'2A38ABDE3D95F0EADBAC9AB4C772B5A33B9431D907DDCD5E34CFA3A6CFFC0802', 'Book me to Zürich 🛫', 6, 3, 94, '2024-05-01', '{"model":"m\ud800","n":1}', 3);
INSERT INTO conversation (id, source_id, external_id, hash, opening, messages, turns, chars, created_at, meta, line) VALUES (3, 2, 'b', X'F6A9BCF5D8DB14C179C3771665FDF17C032E9CD36227E99ED536ADA316E96F38', 'Where is it?', 1, 1, 12, NULL, '{}', NULL);
INSERT INTO original (conversation_id, raw) VALUES (1, X'282761272C202827492077616E742061207265642062696379636C65272C2027536F6C642127292C207B277472757468273A207B27676F616C273A2027627579277D7D29');
INSERT INTO original (conversation_id, raw) VALUES (2, X'7B226964223A2022746F6F6C73227DFF00');
INSERT INTO original (conversation_id, raw) VALUES (3, X'282762272C20282757686572652069732069743F272C292C207B7D29');
INSERT INTO message (id, conversation_id, idx, role, name, content, tool_calls, tool_call_id, model_view, hidden) VALUES (1048576, 1, 0, 'user', NULL, 'I want a red bicycle', NULL, NULL, NULL, 0);
INSERT INTO message (id, conversation_id, idx, role, name, content, tool_calls, tool_call_id, model_view, hidden) VALUES (1048577, 1, 1, 'assistant', NULL, 'Sold!', NULL, NULL, NULL, 0);
INSERT INTO message (id, conversation_id, idx, role, name, content, tool_calls, tool_call_id, model_view, hidden) VALUES (2097152, 2, 0, 'system', NULL, 'You help with flights.', NULL, NULL, NULL, 0);
INSERT INTO message (id, conversation_id, idx, role, name, content, tool_calls, tool_call_id, model_view, hidden) VALUES (2097153, 2, 1, 'user', 'ann', 'Book me to Zürich 🛫', NULL, NULL, NULL, 0);
INSERT INTO message (id, conversation_id, idx, role, name, content, tool_calls, tool_call_id, model_view, hidden) VALUES (2097154, 2, 2, 'assistant', NULL, '', '[["book","{\"to\": \"ZRH\"}","c1"]]', NULL, NULL, 0);
INSERT INTO message (id, conversation_id, idx, role, name, content, tool_calls, tool_call_id, model_view, hidden) VALUES (2097155, 2, 3, 'tool', 'book', '{"ok": true}', NULL, 'c1', NULL, 0);
INSERT INTO message (id, conversation_id, idx, role, name, content, tool_calls, tool_call_id, model_view, hidden) VALUES (2097156, 2, 4, 'assistant', NULL, 'Booked. ###STOP###', NULL, NULL, 'Booked.', 0);
INSERT INTO message (id, conversation_id, idx, role, name, content, tool_calls, tool_call_id, model_view, hidden) VALUES (2097157, 2, 5, 'user', NULL, '###STOP###', NULL, NULL, '', 1);
INSERT INTO message (id, conversation_id, idx, role, name, content, tool_calls, tool_call_id, model_view, hidden) VALUES (3145728, 3, 0, 'user', NULL, 'Where is it?', NULL, NULL, NULL, 0);
INSERT INTO truth (conversation_id, truth) VALUES (1, '{"goal":"buy"}');
INSERT INTO truth (conversation_id, truth) VALUES (2, '{"reward":1.0}');
INSERT INTO alias (id, conversation_id, source_id, external_id, line, raw, truth) VALUES (1, 3, 2, 'a2', NULL, X'28276132272C20282757686572652069732069743F272C292C207B7D29', NULL);
INSERT INTO leak (id, conversation_id, message, rule, found) VALUES (1, 2, 4, 'stop-token', '###STOP###');
INSERT INTO leak (id, conversation_id, message, rule, found) VALUES (2, 2, NULL, 'truth-field', 'reward');
INSERT INTO quarantine (id, digest, source_id, line, reason, raw) VALUES (1, X'25810FA43EA1A612CC74B33504349EF58D619115211B8434758DDC9944EAEE00', 2, 4, 'not JSON', X'7BFF');
INSERT INTO score_config (config_hash, mode, model, adapter, noise) VALUES ('config-a', 'base', 'tiny.gguf', NULL, NULL);
INSERT INTO score (conversation_id, config_hash, run_id, p_end, p_continue, p_end_normalised, reason, tokens) VALUES (1, 'config-a', 1, 0.9, 9.99999999999999777955e-02, 0.9, NULL, 10);
INSERT INTO score (conversation_id, config_hash, run_id, p_end, p_continue, p_end_normalised, reason, tokens) VALUES (2, 'config-a', 1, NULL, NULL, NULL, 'too long', 10);
INSERT INTO score (conversation_id, config_hash, run_id, p_end, p_continue, p_end_normalised, reason, tokens) VALUES (3, 'config-a', 1, 0.2, 0.8, 0.2, NULL, 10);
INSERT INTO boundary_score (conversation_id, config_hash, message, step, turn, p_end, p_continue) VALUES (1, 'config-a', 1, 2, 1, 0.9, 9.99999999999999777955e-02);
INSERT INTO boundary_score (conversation_id, config_hash, message, step, turn, p_end, p_continue) VALUES (3, 'config-a', 1, 2, 1, 0.2, 0.8);
INSERT INTO remaining (conversation_id, config_hash, score_config_hash, run_id, text, reason) VALUES (3, 'r', 'config-a', 1, 'Say where it is.', NULL);
INSERT INTO verdict (id, conversation_id, kind, verdict, note, given_at, target) VALUES (1, 1, 'give', 'complete', '', '2026-11-20T15:21:41.607Z', NULL);
INSERT INTO verdict (id, conversation_id, kind, verdict, note, given_at, target) VALUES (2, 3, 'give', 'incomplete', 'no answer', '2026-11-20T15:21:41.608Z', NULL);
INSERT INTO verdict (id, conversation_id, kind, verdict, note, given_at, target) VALUES (3, 1, 'tag', NULL, 'odd', '2026-11-20T15:21:41.609Z', NULL);
INSERT INTO verdict (id, conversation_id, kind, verdict, note, given_at, target) VALUES (4, 2, 'tag', NULL, 'odd', '2026-11-20T15:21:41.609Z', NULL);
INSERT INTO verdict (id, conversation_id, kind, verdict, note, given_at, target) VALUES (5, 2, 'untag', NULL, 'odd', '2026-11-20T15:21:41.610Z', NULL);
INSERT INTO verdict (id, conversation_id, kind, verdict, note, given_at, target) VALUES (6, 3, 'repeat', 'unsure', '', '2026-11-20T15:21:41.611Z', NULL);
INSERT INTO verdict (id, conversation_id, kind, verdict, note, given_at, target) VALUES (7, 1, 'note', NULL, 'taken back', '2026-11-20T15:21:41.612Z', NULL);
INSERT INTO verdict (id, conversation_id, kind, verdict, note, given_at, target) VALUES (8, 1, 'undo', NULL, '', '2026-11-20T15:21:41.613Z', 7);
INSERT INTO tree_config (config_hash, alpha, mode, place, model, adapter) VALUES ('t', 0.1, 'path', 'end', 'tiny.gguf', NULL);
INSERT INTO tree (id, conversation_id, config_hash, step, run_id, reason, prompt_tokens, note, leaves, answers, nodes, max_log_prob, max_log_prob_per_token, covered, pruned, unexpanded, entropy_low, entropy_high, fork_depth, fork_entropy, answer_log_prob, answer_tokens, answer_held, seconds, packed) VALUES (1, 1, 't', 2, 1, NULL, 9, NULL, 2, 2, 3, -0.1, -0.05, 0.9, 0.1, 0.0, 0.5, 0.6, 0, 0.7, -0.2, 1, 1, 0.5, X'789CAB56CACB4F492D56B232AE0500177003C3');
INSERT INTO message_fts (message_fts) VALUES ('rebuild');
