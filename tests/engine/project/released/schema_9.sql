PRAGMA application_id = 1463960392;
PRAGMA user_version = 9;
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
        , reasoning TEXT, facts TEXT) STRICT;
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
CREATE TABLE goal_config (config_hash TEXT PRIMARY KEY, model TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE goal_text (
            config_hash TEXT NOT NULL REFERENCES goal_config (config_hash),
            conversation_id INTEGER NOT NULL REFERENCES conversation (id),
            run_id INTEGER NOT NULL REFERENCES run (id),
            text TEXT NOT NULL,
            reason TEXT,
            PRIMARY KEY (config_hash, conversation_id),
            CHECK (text <> '' OR reason IS NOT NULL)
        ) STRICT, WITHOUT ROWID;
CREATE TABLE vector_block (
            id INTEGER PRIMARY KEY,
            config_id INTEGER NOT NULL REFERENCES vector_config (id),
            run_id INTEGER NOT NULL REFERENCES run (id),
            first INTEGER NOT NULL,
            last INTEGER NOT NULL,
            count INTEGER NOT NULL,
            ids BLOB NOT NULL,
            vectors BLOB NOT NULL,
            CHECK (count > 0 AND length(ids) = 8 * count)
        ) STRICT;
CREATE INDEX vector_block_by_config ON vector_block (config_id, first, last, count);
CREATE TABLE no_vector (
            config_id INTEGER NOT NULL REFERENCES vector_config (id),
            conversation_id INTEGER NOT NULL REFERENCES conversation (id),
            reason TEXT NOT NULL,
            PRIMARY KEY (config_id, conversation_id)
        ) STRICT, WITHOUT ROWID;
CREATE TABLE clustering (
            id INTEGER PRIMARY KEY,
            config_hash TEXT NOT NULL,
            run_id INTEGER NOT NULL REFERENCES run (id),
            vector_config INTEGER NOT NULL REFERENCES vector_config (id),
            created_at TEXT NOT NULL,
            k INTEGER NOT NULL,
            seed INTEGER NOT NULL,
            conversations INTEGER NOT NULL,
            outliers INTEGER NOT NULL,
            no_text INTEGER NOT NULL,
            label_config TEXT,
            pair_config TEXT
        ) STRICT;
CREATE INDEX clustering_by_config ON clustering (config_hash);
CREATE TABLE cluster (
            clustering_id INTEGER NOT NULL REFERENCES clustering (id),
            number INTEGER NOT NULL,
            size INTEGER NOT NULL CHECK (size > 0),
            spread REAL NOT NULL,
            reach REAL NOT NULL,
            words TEXT NOT NULL,
            centre BLOB NOT NULL,
            PRIMARY KEY (clustering_id, number)
        ) STRICT;
CREATE TABLE cluster_label (
            clustering_id INTEGER NOT NULL,
            number INTEGER NOT NULL,
            config_hash TEXT NOT NULL,
            run_id INTEGER NOT NULL REFERENCES run (id),
            label TEXT NOT NULL,
            description TEXT NOT NULL,
            reason TEXT,
            PRIMARY KEY (clustering_id, number, config_hash),
            FOREIGN KEY (clustering_id, number) REFERENCES cluster (clustering_id, number),
            CHECK (label <> '' OR reason IS NOT NULL)
        ) STRICT, WITHOUT ROWID;
CREATE TABLE membership (
            clustering_id INTEGER NOT NULL,
            conversation_id INTEGER NOT NULL REFERENCES conversation (id),
            cluster INTEGER,
            distance REAL NOT NULL,
            second INTEGER,
            second_distance REAL,
            PRIMARY KEY (clustering_id, conversation_id),
            FOREIGN KEY (clustering_id, cluster) REFERENCES cluster (clustering_id, number)
        ) STRICT, WITHOUT ROWID;
CREATE TABLE pair_answer (
            config_hash TEXT NOT NULL,
            sides TEXT NOT NULL,
            run_id INTEGER NOT NULL REFERENCES run (id),
            likelihood_ratio REAL,
            yes REAL,
            yes_reversed REAL,
            reason TEXT NOT NULL,
            label TEXT NOT NULL,
            description TEXT NOT NULL,
            model TEXT NOT NULL,
            calls INTEGER NOT NULL,
            seconds REAL NOT NULL,
            PRIMARY KEY (config_hash, sides)
        ) STRICT, WITHOUT ROWID;
CREATE TABLE decision (
            id INTEGER PRIMARY KEY,
            clustering_id INTEGER NOT NULL REFERENCES clustering (id),
            act INTEGER NOT NULL,
            kind TEXT NOT NULL CHECK (kind IN ('merge', 'apart', 'never', 'split', 'move', 'rename',
                'pin', 'unpin', 'undo', 'redo')),
            target INTEGER REFERENCES decision (id),
            sides TEXT NOT NULL,
            labels TEXT NOT NULL,
            names TEXT NOT NULL,
            author TEXT NOT NULL CHECK (author IN ('human', 'auto', 'llm')),
            model TEXT NOT NULL,
            probability REAL,
            evidence TEXT,
            given_at TEXT NOT NULL,
            carried INTEGER REFERENCES decision (id),
            CHECK ((kind IN ('undo', 'redo')) = (target IS NOT NULL))
        ) STRICT;
CREATE INDEX decision_by_clustering ON decision (clustering_id, act);
CREATE INDEX decision_by_target ON decision (target) WHERE target IS NOT NULL;
CREATE TABLE decision_part (
            decision_id INTEGER NOT NULL REFERENCES decision (id),
            part INTEGER NOT NULL,
            ids BLOB NOT NULL,
            PRIMARY KEY (decision_id, part)
        ) STRICT;
CREATE TABLE decision_kept (
            clustering_id INTEGER NOT NULL REFERENCES clustering (id),
            decision_id INTEGER NOT NULL REFERENCES decision (id),
            reason TEXT NOT NULL,
            PRIMARY KEY (clustering_id, decision_id)
        ) STRICT, WITHOUT ROWID;
CREATE TABLE assignment (
            clustering_id INTEGER NOT NULL REFERENCES clustering (id),
            conversation_id INTEGER NOT NULL REFERENCES conversation (id),
            run_id INTEGER NOT NULL REFERENCES run (id),
            group_id TEXT,
            after INTEGER NOT NULL,
            score REAL NOT NULL,
            others TEXT NOT NULL,
            distance REAL NOT NULL,
            PRIMARY KEY (clustering_id, conversation_id)
        ) STRICT, WITHOUT ROWID;
CREATE TABLE stability (
            clustering_id INTEGER NOT NULL REFERENCES clustering (id),
            config_hash TEXT NOT NULL,
            kind TEXT NOT NULL CHECK (kind IN ('seed', 'bootstrap')),
            repetition INTEGER NOT NULL,
            run_id INTEGER NOT NULL REFERENCES run (id),
            ari REAL NOT NULL,
            labels BLOB,
            PRIMARY KEY (clustering_id, config_hash, kind, repetition)
        ) STRICT;
CREATE TABLE cluster_stability (
            clustering_id INTEGER NOT NULL,
            config_hash TEXT NOT NULL,
            kind TEXT NOT NULL,
            repetition INTEGER NOT NULL,
            number INTEGER NOT NULL,
            jaccard REAL NOT NULL,
            PRIMARY KEY (clustering_id, config_hash, kind, repetition, number),
            FOREIGN KEY (clustering_id, config_hash, kind, repetition)
                REFERENCES stability (clustering_id, config_hash, kind, repetition)
        ) STRICT, WITHOUT ROWID;
CREATE VIRTUAL TABLE message_fts_signs USING fts5 (content, tool_calls, content = '');
CREATE TABLE play_config (
            config_hash TEXT PRIMARY KEY,
            kind TEXT NOT NULL,
            params TEXT NOT NULL,
            models TEXT NOT NULL
        ) STRICT, WITHOUT ROWID;
CREATE TABLE play (
            id INTEGER PRIMARY KEY,
            config_hash TEXT NOT NULL REFERENCES play_config (config_hash),
            key TEXT NOT NULL,
            run_id INTEGER NOT NULL REFERENCES run (id),
            conversation_id INTEGER REFERENCES conversation (id),
            reason TEXT,
            result TEXT NOT NULL,
            transcript BLOB NOT NULL,
            UNIQUE (config_hash, key)
        ) STRICT;
CREATE INDEX play_by_conversation ON play (conversation_id) WHERE conversation_id IS NOT NULL;
CREATE TABLE call_reply (
            key BLOB PRIMARY KEY CHECK (length(key) = 32),
            text TEXT NOT NULL,
            stopped TEXT NOT NULL CHECK (stopped IN ('end', 'stop', 'length')),
            note TEXT
        ) STRICT;
CREATE TABLE "vector_config" (
            id INTEGER PRIMARY KEY,
            config_hash TEXT NOT NULL UNIQUE,
            text TEXT NOT NULL CHECK (text IN ('first-user', 'all-user', 'all', 'summary')),
            goal_config TEXT REFERENCES goal_config (config_hash),
            embedder TEXT NOT NULL,
            fingerprint TEXT NOT NULL,
            dimensions INTEGER NOT NULL,
            state BLOB,
            CHECK ((text = 'summary') = (goal_config IS NOT NULL))
        ) STRICT;
CREATE TABLE state_config (
            config_hash TEXT PRIMARY KEY,
            model TEXT NOT NULL,
            adapter TEXT
        ) STRICT, WITHOUT ROWID;
CREATE TABLE hidden_state (
            id INTEGER PRIMARY KEY,
            config_hash TEXT NOT NULL REFERENCES state_config (config_hash),
            conversation_id INTEGER NOT NULL REFERENCES conversation (id),
            run_id INTEGER NOT NULL REFERENCES run (id),
            boundaries TEXT NOT NULL,
            states BLOB NOT NULL,
            reason TEXT,
            tokens INTEGER NOT NULL,
            UNIQUE (config_hash, conversation_id)
        ) STRICT;
CREATE TABLE "score_config" (
            config_hash TEXT PRIMARY KEY,
            mode TEXT NOT NULL CHECK (mode IN ('base', 'tuned', 'judge', 'probe')),
            model TEXT NOT NULL,
            adapter TEXT,
            noise REAL,
            test TEXT
        ) STRICT, WITHOUT ROWID;
CREATE TABLE taught (
            id INTEGER PRIMARY KEY,
            subject TEXT NOT NULL,
            in_force INTEGER NOT NULL CHECK (in_force IN (0, 1)),
            marks INTEGER NOT NULL,
            threshold REAL NOT NULL,
            figures TEXT,
            UNIQUE (subject, in_force)
        ) STRICT;
CREATE TABLE taught_value (
            taught_id INTEGER NOT NULL REFERENCES taught (id) ON DELETE CASCADE,
            conversation_id INTEGER NOT NULL REFERENCES conversation (id),
            p REAL,
            place INTEGER,
            PRIMARY KEY (taught_id, conversation_id)
        ) STRICT, WITHOUT ROWID;
CREATE INDEX taught_value_by_p ON taught_value (taught_id, p);
CREATE INDEX taught_value_by_place ON taught_value (taught_id, place);
INSERT INTO _sqlite_migrations (id, migration_set, name, applied_at) VALUES (1, 'workbench', 'm001_conversations_scores_verdicts', '2026-11-23 02:53:55.806470+00:00');
INSERT INTO _sqlite_migrations (id, migration_set, name, applied_at) VALUES (2, 'workbench', 'm002_scale_tags_trees', '2026-11-23 02:53:55.808493+00:00');
INSERT INTO _sqlite_migrations (id, migration_set, name, applied_at) VALUES (3, 'workbench', 'm003_goals', '2026-11-23 02:53:55.809721+00:00');
INSERT INTO _sqlite_migrations (id, migration_set, name, applied_at) VALUES (4, 'workbench', 'm004_signs', '2026-11-23 02:53:55.810279+00:00');
INSERT INTO _sqlite_migrations (id, migration_set, name, applied_at) VALUES (5, 'workbench', 'm005_plays', '2026-11-23 02:53:55.810657+00:00');
INSERT INTO _sqlite_migrations (id, migration_set, name, applied_at) VALUES (6, 'workbench', 'm006_both_sides', '2026-11-23 02:53:55.812816+00:00');
INSERT INTO _sqlite_migrations (id, migration_set, name, applied_at) VALUES (7, 'workbench', 'm007_probes', '2026-11-23 02:53:55.819021+00:00');
INSERT INTO _sqlite_migrations (id, migration_set, name, applied_at) VALUES (8, 'workbench', 'm008_taught', '2026-11-23 02:53:55.819458+00:00');
INSERT INTO _sqlite_migrations (id, migration_set, name, applied_at) VALUES (9, 'workbench', 'm009_reasoning', '2026-11-23 02:53:55.820436+00:00');
INSERT INTO setting (key, value) VALUES ('clustering', '1');
INSERT INTO setting (key, value) VALUES ('score_config', '"config-a"');
INSERT INTO setting (key, value) VALUES ('tree_config', '"t"');
INSERT INTO run (id, stage, state, config_hash, params, fingerprints, code_version, started_at, finished_at, done, total, message, pid) VALUES (1, 'score', 'done', 'config-a', '{}', '{}', 'test', '2026-11-23T02:53:55.822Z', '2026-11-23T02:53:55.822Z', 0, NULL, 'scored', 24118);
INSERT INTO source (id, place, label, format, why) VALUES (1, '/data/a.jsonl', 'a.jsonl', 'uniform', 'it looked like it');
INSERT INTO source (id, place, label, format, why) VALUES (2, '/data/b', 'b', 'uniform', 'it looked like it');
INSERT INTO conversation (id, source_id, external_id, hash, opening, messages, turns, chars, created_at, meta, line) VALUES (1, 1, 'a', X'A80F849E73D013447BAD6BCC23103538A3037811BBFF44ACF5FC0974CB165022', 'I want a red bicycle', 2, 1, 30, NULL, '{}', NULL);
INSERT INTO conversation (id, source_id, external_id, hash, opening, messages, turns, chars, created_at, meta, line) VALUES (2, 2, 't', X'E3526D9EC238243474977C804123260876A053AD69C9867744805593EF48949F', 'Book me to Zürich 🛫', 6, 3, 94, '2024-05-01', '{"model":"m\ud800","n":1}', 3);
INSERT INTO conversation (id, source_id, external_id, hash, opening, messages, turns, chars, created_at, meta, line) VALUES (3, 2, 'b', X'F6A9BCF5D8DB14C179C3771665FDF17C032E9CD36227E99ED536ADA316E96F38', 'Where is it?', 1, 1, 12, NULL, '{}', NULL);
INSERT INTO original (conversation_id, raw) VALUES (1, X'282761272C202827492077616E742061207265642062696379636C65272C2027536F6C642120E58D96E68E89E4BA86E3808227292C207B277472757468273A207B27676F616C273A2027627579277D7D29');
INSERT INTO original (conversation_id, raw) VALUES (2, X'7B226964223A2022746F6F6C73227DFF00');
INSERT INTO original (conversation_id, raw) VALUES (3, X'282762272C20282757686572652069732069743F272C292C207B7D29');
INSERT INTO message (id, conversation_id, idx, role, name, content, tool_calls, tool_call_id, model_view, hidden, reasoning, facts) VALUES (1048576, 1, 0, 'user', NULL, 'I want a red bicycle', NULL, NULL, NULL, 0, NULL, NULL);
INSERT INTO message (id, conversation_id, idx, role, name, content, tool_calls, tool_call_id, model_view, hidden, reasoning, facts) VALUES (1048577, 1, 1, 'assistant', NULL, 'Sold! 卖掉了。', NULL, NULL, NULL, 0, NULL, NULL);
INSERT INTO message (id, conversation_id, idx, role, name, content, tool_calls, tool_call_id, model_view, hidden, reasoning, facts) VALUES (2097152, 2, 0, 'system', NULL, 'You help with flights.', NULL, NULL, NULL, 0, NULL, NULL);
INSERT INTO message (id, conversation_id, idx, role, name, content, tool_calls, tool_call_id, model_view, hidden, reasoning, facts) VALUES (2097153, 2, 1, 'user', 'ann', 'Book me to Zürich 🛫', NULL, NULL, NULL, 0, NULL, NULL);
INSERT INTO message (id, conversation_id, idx, role, name, content, tool_calls, tool_call_id, model_view, hidden, reasoning, facts) VALUES (2097154, 2, 2, 'assistant', NULL, '', '[["book","{\"to\": \"ZRH\"}","c1"]]', NULL, NULL, 0, 'She wants a flight.', NULL);
INSERT INTO message (id, conversation_id, idx, role, name, content, tool_calls, tool_call_id, model_view, hidden, reasoning, facts) VALUES (2097155, 2, 3, 'tool', 'book', '{"ok": true}', NULL, 'c1', NULL, 0, NULL, NULL);
INSERT INTO message (id, conversation_id, idx, role, name, content, tool_calls, tool_call_id, model_view, hidden, reasoning, facts) VALUES (2097156, 2, 4, 'assistant', NULL, 'Booked. ###STOP###', NULL, NULL, 'Booked.', 0, NULL, NULL);
INSERT INTO message (id, conversation_id, idx, role, name, content, tool_calls, tool_call_id, model_view, hidden, reasoning, facts) VALUES (2097157, 2, 5, 'user', NULL, '###STOP###', NULL, NULL, '', 1, NULL, NULL);
INSERT INTO message (id, conversation_id, idx, role, name, content, tool_calls, tool_call_id, model_view, hidden, reasoning, facts) VALUES (3145728, 3, 0, 'user', NULL, 'Where is it?', NULL, NULL, NULL, 0, NULL, NULL);
INSERT INTO truth (conversation_id, truth) VALUES (1, '{"goal":"buy"}');
INSERT INTO truth (conversation_id, truth) VALUES (2, '{"reward":1.0}');
INSERT INTO alias (id, conversation_id, source_id, external_id, line, raw, truth) VALUES (1, 3, 2, 'a2', NULL, X'28276132272C20282757686572652069732069743F272C292C207B7D29', NULL);
INSERT INTO leak (id, conversation_id, message, rule, found) VALUES (1, 2, 4, 'stop-token', '###STOP###');
INSERT INTO leak (id, conversation_id, message, rule, found) VALUES (2, 2, NULL, 'truth-field', 'reward');
INSERT INTO quarantine (id, digest, source_id, line, reason, raw) VALUES (1, X'25810FA43EA1A612CC74B33504349EF58D619115211B8434758DDC9944EAEE00', 2, 4, 'not JSON', X'7BFF');
INSERT INTO score (conversation_id, config_hash, run_id, p_end, p_continue, p_end_normalised, reason, tokens) VALUES (1, 'config-a', 1, 0.9, 9.99999999999999777955e-02, 0.9, NULL, 10);
INSERT INTO score (conversation_id, config_hash, run_id, p_end, p_continue, p_end_normalised, reason, tokens) VALUES (2, 'config-a', 1, NULL, NULL, NULL, 'too long', 10);
INSERT INTO score (conversation_id, config_hash, run_id, p_end, p_continue, p_end_normalised, reason, tokens) VALUES (3, 'config-a', 1, 0.2, 0.8, 0.2, NULL, 10);
INSERT INTO boundary_score (conversation_id, config_hash, message, step, turn, p_end, p_continue) VALUES (1, 'config-a', 1, 2, 1, 0.9, 9.99999999999999777955e-02);
INSERT INTO boundary_score (conversation_id, config_hash, message, step, turn, p_end, p_continue) VALUES (3, 'config-a', 1, 2, 1, 0.2, 0.8);
INSERT INTO remaining (conversation_id, config_hash, score_config_hash, run_id, text, reason) VALUES (3, 'r', 'config-a', 1, 'Say where it is.', NULL);
INSERT INTO verdict (id, conversation_id, kind, verdict, note, given_at, target) VALUES (1, 1, 'give', 'complete', '', '2026-11-23T02:53:55.829Z', NULL);
INSERT INTO verdict (id, conversation_id, kind, verdict, note, given_at, target) VALUES (2, 3, 'give', 'incomplete', 'no answer', '2026-11-23T02:53:55.830Z', NULL);
INSERT INTO verdict (id, conversation_id, kind, verdict, note, given_at, target) VALUES (3, 1, 'tag', NULL, 'odd', '2026-11-23T02:53:55.831Z', NULL);
INSERT INTO verdict (id, conversation_id, kind, verdict, note, given_at, target) VALUES (4, 2, 'tag', NULL, 'odd', '2026-11-23T02:53:55.831Z', NULL);
INSERT INTO verdict (id, conversation_id, kind, verdict, note, given_at, target) VALUES (5, 2, 'untag', NULL, 'odd', '2026-11-23T02:53:55.832Z', NULL);
INSERT INTO verdict (id, conversation_id, kind, verdict, note, given_at, target) VALUES (6, 3, 'repeat', 'unsure', '', '2026-11-23T02:53:55.833Z', NULL);
INSERT INTO verdict (id, conversation_id, kind, verdict, note, given_at, target) VALUES (7, 1, 'note', NULL, 'taken back', '2026-11-23T02:53:55.834Z', NULL);
INSERT INTO verdict (id, conversation_id, kind, verdict, note, given_at, target) VALUES (8, 1, 'undo', NULL, '', '2026-11-23T02:53:55.835Z', 7);
INSERT INTO tree_config (config_hash, alpha, mode, place, model, adapter) VALUES ('t', 0.1, 'path', 'end', 'tiny.gguf', NULL);
INSERT INTO tree (id, conversation_id, config_hash, step, run_id, reason, prompt_tokens, note, leaves, answers, nodes, max_log_prob, max_log_prob_per_token, covered, pruned, unexpanded, entropy_low, entropy_high, fork_depth, fork_entropy, answer_log_prob, answer_tokens, answer_held, seconds, packed) VALUES (1, 1, 't', 2, 1, NULL, 9, NULL, 2, 2, 3, -0.1, -0.05, 0.9, 0.1, 0.0, 0.5, 0.6, 0, 0.7, -0.2, 1, 1, 0.5, X'789CAB56CACB4F492D56B232AE0500177003C3');
INSERT INTO goal_config (config_hash, model) VALUES ('g', 'tiny.gguf');
INSERT INTO goal_text (config_hash, conversation_id, run_id, text, reason) VALUES ('g', 1, 1, 'buy a bicycle', NULL);
INSERT INTO goal_text (config_hash, conversation_id, run_id, text, reason) VALUES ('g', 2, 1, 'I cannot', 'it refuses');
INSERT INTO vector_block (id, config_id, run_id, first, last, count, ids, vectors) VALUES (1, 1, 1, 1, 3, 2, X'01000000000000000300000000000000', X'0000803F00000000000000000000803F');
INSERT INTO no_vector (config_id, conversation_id, reason) VALUES (1, 2, 'no goal');
INSERT INTO clustering (id, config_hash, run_id, vector_config, created_at, k, seed, conversations, outliers, no_text, label_config, pair_config) VALUES (1, 'c', 1, 1, '2026-11-23T02:53:55.823Z', 2, 7, 2, 0, 1, 'l', 'p');
INSERT INTO cluster (clustering_id, number, size, spread, reach, words, centre) VALUES (1, 0, 1, 0.0, 0.0, '["word0"]', X'0000803F00000000');
INSERT INTO cluster (clustering_id, number, size, spread, reach, words, centre) VALUES (1, 1, 1, 0.0, 0.0, '["word1"]', X'000000000000803F');
INSERT INTO cluster_label (clustering_id, number, config_hash, run_id, label, description, reason) VALUES (1, 0, 'l', 1, 'Buying', 'They buy.', NULL);
INSERT INTO membership (clustering_id, conversation_id, cluster, distance, second, second_distance) VALUES (1, 1, 0, 0.0, 1, 1.0);
INSERT INTO membership (clustering_id, conversation_id, cluster, distance, second, second_distance) VALUES (1, 3, 1, 0.0, 0, 1.0);
INSERT INTO pair_answer (config_hash, sides, run_id, likelihood_ratio, yes, yes_reversed, reason, label, description, model, calls, seconds) VALUES ('p', 'sides', 1, 0.5, 0.9, 0.8, 'alike', 'Both', 'They both.', 'tiny.gguf', 4, 0.1);
INSERT INTO decision (id, clustering_id, act, kind, target, sides, labels, names, author, model, probability, evidence, given_at, carried) VALUES (1, 1, 1, 'move', NULL, '["c1"]', '["Where"]', '[]', 'human', '', NULL, NULL, '2026', NULL);
INSERT INTO decision (id, clustering_id, act, kind, target, sides, labels, names, author, model, probability, evidence, given_at, carried) VALUES (2, 1, 2, 'undo', 1, '[]', '[]', '[]', 'human', '', NULL, NULL, '2026-11-23T02:53:55.823Z', NULL);
INSERT INTO decision_part (decision_id, part, ids) VALUES (1, 0, X'0100000000000000');
INSERT INTO decision_kept (clustering_id, decision_id, reason) VALUES (1, 1, 'spread');
INSERT INTO assignment (clustering_id, conversation_id, run_id, group_id, after, score, others, distance) VALUES (1, 2, 1, 'c1', 0, 0.5, '[["c0",0.4]]', 0.3);
INSERT INTO stability (clustering_id, config_hash, kind, repetition, run_id, ari, labels) VALUES (1, 's', 'bootstrap', 0, 1, 0.75, NULL);
INSERT INTO cluster_stability (clustering_id, config_hash, kind, repetition, number, jaccard) VALUES (1, 's', 'bootstrap', 0, 0, 0.5);
INSERT INTO cluster_stability (clustering_id, config_hash, kind, repetition, number, jaccard) VALUES (1, 's', 'bootstrap', 0, 1, 1.0);
INSERT INTO play_config (config_hash, kind, params, models) VALUES ('s', 'sharded', '{"seed":7}', '{"assistant":"tiny.gguf"}');
INSERT INTO play (id, config_hash, key, run_id, conversation_id, reason, result, transcript) VALUES (1, 's', 'sharded/a/0', 1, 1, NULL, '{"score":1.0}', X'789C654D3B0A023110BD4A9C7A11AD84BD81B565481137C312C88FCC045D96BDBB4F5BBBF77F76A75CC3484C33799128EA8BD244BDFE499945FCCA42B3B534843BB4BB79C134DE740EE619976D41CDB9896AE312CB8A09A494DF0AF4A8299C40456B6B1CA07009E0A52ABECA48091E7F8D1B80CF2DFD1676F473E3EE7574E4AEE7CB71B80F2FBC3CE9');
INSERT INTO play (id, config_hash, key, run_id, conversation_id, reason, result, transcript) VALUES (2, 's', 'sharded/b/0', 1, NULL, 'it was refused', '{}', X'789C8B8E0500011500B9');
INSERT INTO call_reply (key, text, stopped, note) VALUES (X'00FF00FF00FF00FF00FF00FF00FF00FF00FF00FF00FF00FF00FF00FF00FF00FF', 'Sold!', 'end', '1 of 3 messages left out');
INSERT INTO vector_config (id, config_hash, text, goal_config, embedder, fingerprint, dimensions, state) VALUES (1, 'v', 'summary', 'g', 'tfidf', 'tfidf-1', 2, X'666974746564');
INSERT INTO state_config (config_hash, model, adapter) VALUES ('h', 'tiny.gguf', NULL);
INSERT INTO hidden_state (id, config_hash, conversation_id, run_id, boundaries, states, reason, tokens) VALUES (1, 'h', 1, 1, '[[1,1,1,40,20],[3,3,2,90,25]]', X'003C0000003800BC', NULL, 30);
INSERT INTO score_config (config_hash, mode, model, adapter, noise, test) VALUES ('config-a', 'base', 'tiny.gguf', NULL, NULL, NULL);
INSERT INTO score_config (config_hash, mode, model, adapter, noise, test) VALUES ('p', 'probe', 'tiny.gguf', NULL, 0.02, '{"conversations":20,"auroc":{"value":0.9,"low":0.8,"high":0.95},"f1":0.85,"keywords":0.7,"position":0.6,"matched":null,"matched_pairs":0}');
INSERT INTO taught (id, subject, in_force, marks, threshold, figures) VALUES (1, 'odd', 1, 2, 0.5, '{"positive":1,"negative":1,"auroc":{"value":0.8,"low":0.5,"high":0.9},"agreement":{"part":1,"of":2,"low":0.1,"high":0.9},"precision":null,"above":1,"conversations":1,"proposed":0,"rate":{"conversations":1,"scored":1,"apparent":1.0,"corrected":{"value":0.9,"low":0.5,"high":1.0},"why":""}}');
INSERT INTO taught_value (taught_id, conversation_id, p, place) VALUES (1, 1, 0.75, NULL);
INSERT INTO taught_value (taught_id, conversation_id, p, place) VALUES (1, 2, 0.5, 0);
INSERT INTO message_fts (message_fts) VALUES ('rebuild');
